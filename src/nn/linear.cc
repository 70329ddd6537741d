#include <algorithm>

#include "base/error.h"
#include "nn/layers.h"

namespace mlxcel::nn {
namespace {

void require_one_rank(const io::Weights& w, Parallel parallel) {
  if (parallel != Parallel::None && w.tp().size != 1) {
    throw Error(Code::Unsupported, "tensor parallelism is not available in this build");
  }
}

/// The matrix to pack, or null when the checkpoint lacks it (which take_matrix has then recorded).
std::shared_ptr<const MatrixSource> stored_matrix(const io::Weights& w, int64_t rows,
                                                  int64_t cols) {
  const bool present = w.has("weight");
  auto source = w.take_matrix(rows, cols);
  return present ? source : nullptr;
}

Tensor stored_bias(const io::Weights& w, int64_t out_features, Bias bias) {
  if (bias == Bias::None || (bias == Bias::IfPresent && !w.has("bias"))) return {};
  return w.take_f32("bias", Shape{out_features});  // on the host: join_biases reads it
}

const ops::PackedMatrix& loaded(const std::shared_ptr<const ops::PackedMatrix>& weight) {
  MLXCEL_CHECK(weight != nullptr, "a projection whose weight is missing was run");
  return *weight;
}

Tensor product(const Tensor& x, const std::shared_ptr<const ops::PackedMatrix>& weight,
               const Tensor& bias) {
  return ops::linear(x, loaded(weight), bias ? &bias : nullptr);
}

int64_t matrix_bytes(const std::shared_ptr<const ops::PackedMatrix>& weight, const Tensor& bias) {
  return (weight ? weight->bytes() : 0) + (bias ? bias.bytes() : 0);
}

std::shared_ptr<const MatrixSource> part_matrix(const StackedLinear::Part& part,
                                                int64_t in_features) {
  if (part.rows.empty()) return stored_matrix(part.weights, part.out_features, in_features);
  auto whole = stored_matrix(part.weights, part.stored_rows, in_features);
  return whole ? select_rows(std::move(whole), part.rows) : nullptr;
}

Tensor part_bias(const StackedLinear::Part& part) {
  if (part.rows.empty()) return stored_bias(part.weights, part.out_features, part.bias);
  const Tensor whole = stored_bias(part.weights, part.stored_rows, part.bias);
  if (!whole) return {};
  Tensor chosen = Tensor::empty(Shape{part.out_features}, DType::F32);
  auto out = chosen.host_mut<float>().begin();
  for (const RowRange& r : part.rows) {
    out = std::ranges::copy(whole.host<float>().subspan(static_cast<size_t>(r.begin),
                                                        static_cast<size_t>(r.count)),
                            out)
              .out;
  }
  return chosen;
}

/// Biases of neighbouring parts end to end, zeros for a part without one; null when none has one.
Tensor join_biases(std::span<const Tensor> biases, std::span<const int64_t> sizes) {
  if (std::none_of(biases.begin(), biases.end(), [](const Tensor& b) { return bool(b); }))
    return {};
  int64_t total = 0;
  for (const int64_t size : sizes) total += size;
  Tensor joined = Tensor::zeros(Shape{total}, DType::F32);
  auto out = joined.host_mut<float>().begin();
  for (size_t i = 0; i < biases.size(); ++i) {
    if (biases[i]) std::ranges::copy(biases[i].host<float>(), out);
    out += sizes[i];
  }
  return joined;
}

}  // namespace

Linear::Linear(const io::Weights& w, int64_t in_features, int64_t out_features, Parallel parallel,
               Bias bias) {
  require_one_rank(w, parallel);
  if (const auto source = stored_matrix(w, out_features, in_features)) {
    weight_ = with_context(source->name(), [&] { return ops::pack_matrix(*source, w.device()); });
  }
  bias_ = stored_bias(w, out_features, bias).to(w.device());
}

Tensor Linear::operator()(const Tensor& x) const { return product(x, weight_, bias_); }

Tensor Linear::logits(const Tensor& x) const {
  return ops::linear_f32(x, loaded(weight_), bias_ ? &bias_ : nullptr);
}

int64_t Linear::weight_bytes() const { return matrix_bytes(weight_, bias_); }

StackedLinear::StackedLinear(std::span<const Part> parts, int64_t in_features, Parallel parallel) {
  std::vector<std::shared_ptr<const MatrixSource>> sources;
  const Device device = parts.front().weights.device();
  for (const Part& part : parts) {
    require_one_rank(part.weights, parallel);
    sources.push_back(part_matrix(part, in_features));
  }
  for (size_t begin = 0; begin < parts.size();) {
    const auto& first = sources[begin];
    size_t end = begin + 1;
    while (end < parts.size() && first && sources[end] &&
           sources[end]->format() == first->format()) {
      ++end;
    }
    Run run;
    std::vector<const MatrixSource*> stack;
    std::vector<Tensor> biases;
    for (size_t i = begin; i < end; ++i) {
      stack.push_back(sources[i].get());
      run.out_features.push_back(parts[i].out_features);
      biases.push_back(part_bias(parts[i]));
    }
    if (first) {
      run.weight = with_context(first->name(), [&] { return ops::pack_matrices(stack, device); });
    }
    run.bias = join_biases(biases, run.out_features).to(device);
    runs_.push_back(std::move(run));
    begin = end;
  }
}

std::vector<Tensor> StackedLinear::heads(const Tensor& x, int64_t head_dim) const {
  std::vector<Tensor> out;
  for (const Run& run : runs_) {
    const Tensor y = product(x, run.weight, run.bias);               // [T, sum of the run]
    const Tensor all = y.view({-1, y.dim(1) / head_dim, head_dim});  // [T, heads, head_dim]
    int64_t begin = 0;
    for (const int64_t size : run.out_features) {
      out.push_back(all.slice(1, begin, begin + size / head_dim));
      begin += size / head_dim;
    }
  }
  return out;
}

Tensor StackedLinear::fused_output(const Tensor& x) const {
  MLXCEL_CHECK(fused(), "fused_output() of projections with different formats");
  return product(x, runs_.front().weight, runs_.front().bias);
}

int64_t StackedLinear::weight_bytes() const {
  int64_t total = 0;
  for (const Run& run : runs_) total += matrix_bytes(run.weight, run.bias);
  return total;
}

Embedding::Embedding(const io::Weights& w, int64_t vocab_size, int64_t hidden_size) {
  if (const auto source = stored_matrix(w, vocab_size, hidden_size)) {
    table_ = with_context(source->name(), [&] { return ops::pack_matrix(*source, w.device()); });
  }
}

Tensor Embedding::operator()(const Tensor& token_ids) const {
  return ops::gather_rows(loaded(table_), token_ids);
}

Tensor Embedding::logits(const Tensor& x) const { return ops::linear_f32(x, loaded(table_)); }

int64_t Embedding::weight_bytes() const { return table_ ? table_->bytes() : 0; }

}  // namespace mlxcel::nn

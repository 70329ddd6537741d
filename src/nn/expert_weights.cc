#include "nn/expert_weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/matrix_views.h"

namespace mlxcel::nn {
namespace {

constexpr Device kDevice{};
using Source = std::shared_ptr<const MatrixSource>;

/// One projection of all experts: a matrix and perhaps a bias [E, rows].
struct Projection {
  std::vector<Source> matrices;  // empty when some are missing
  Tensor bias;
};

/// Rows of one projection inside the bias tensor of a stack: rows begin, begin + step, ...
struct RowRange {
  int64_t begin = 0, count = 0, step = 1;
};

Tensor bias_columns(const Tensor& all, const RowRange& rows) {  // [E, N] -> [E, count]
  if (!all) return {};
  const int64_t experts = all.dim(0), width = all.dim(1);
  Tensor out = Tensor::empty({experts, rows.count}, DType::F32);
  const auto from = all.host<float>();
  auto to = out.host_mut<float>();
  for (int64_t e = 0; e < experts; ++e) {
    for (int64_t r = 0; r < rows.count; ++r) {
      to[static_cast<size_t>(e * rows.count + r)] =
          from[static_cast<size_t>(e * width + rows.begin + r * rows.step)];
    }
  }
  return out;
}

class Reader {
 public:
  Reader(const io::Weights& w, const ExpertNames& names, const ExpertSizes& sizes, Bias bias)
      : w_(w), names_(names), s_(sizes), bias_(bias) {}

  struct Parts {
    Projection gate, up, down;
  };
  Parts read() const {
    const int64_t d = s_.hidden_size, f = s_.intermediate_size;
    const io::Weights stacked = w_.at(names_.stacked), single = w_.at(names_.single);
    if (names_.gate.empty()) {
      if (stacked.has(names_.up)) {
        return {{},
                from_stack(stacked.at(names_.up), f, d, {.count = f}),
                from_stack(stacked.at(names_.down), d, f, {.count = d})};
      }
      return {{}, one_by_one(single, names_.up, f, d), one_by_one(single, names_.down, d, f)};
    }
    if (stacked.has(names_.gate)) {
      return {from_stack(stacked.at(names_.gate), f, d, {.count = f}),
              from_stack(stacked.at(names_.up), f, d, {.count = f}),
              from_stack(stacked.at(names_.down), d, f, {.count = d})};
    }
    if (single.has(names_.gate_up)) {
      const io::Weights fused = single.at(names_.gate_up);
      const bool alternate = names_.alternating;
      const int64_t step = alternate ? 2 : 1;
      return {from_stack(fused, 2 * f, d, {.count = f, .step = step}),
              from_stack(fused, 2 * f, d, {.begin = alternate ? 1 : f, .count = f, .step = step}),
              from_stack(single.at(names_.down), d, f, {.count = d})};
    }
    return {one_by_one(single, names_.gate, f, d), one_by_one(single, names_.up, f, d),
            one_by_one(single, names_.down, d, f)};
  }

 private:
  bool wants_bias(const io::Weights& w) const {
    return bias_ == Bias::Required || (bias_ == Bias::IfPresent && w.has("bias"));
  }

  /// `rows` of every expert's [out, in] matrix inside a stack of them.
  Projection from_stack(const io::Weights& w, int64_t out, int64_t in, const RowRange& rows) const {
    Projection p;
    const bool fused_in_out = names_.fused_in_out && w.has_dense_matrix();
    const bool present = w.has_matrix();
    const Source all = fused_in_out ? w.take_matrix(s_.num_experts * in, out)
                                    : w.take_matrix(s_.num_experts * out, in);
    for (int64_t e = 0; present && e < s_.num_experts; ++e) {
      if (fused_in_out) {
        p.matrices.push_back(matrix_rows(transposed(matrix_rows(all, e * in, in)), rows.begin,
                                         rows.count, rows.step));
      } else {
        p.matrices.push_back(matrix_rows(all, e * out + rows.begin, rows.count, rows.step));
      }
    }
    if (wants_bias(w)) {
      p.bias = bias_columns(w.take_f32("bias", Shape{s_.num_experts, out}), rows);
    }
    return p;
  }

  Projection one_by_one(const io::Weights& w, std::string_view name, int64_t out,
                        int64_t in) const {
    Projection p;
    bool complete = true;
    std::vector<Tensor> biases;
    for (int64_t e = 0; e < s_.num_experts; ++e) {
      const io::Weights one = w.at(std::to_string(e)).at(name);
      complete = one.has_matrix() && complete;
      p.matrices.push_back(one.take_matrix(out, in));
      if (wants_bias(one)) biases.push_back(one.take_f32("bias", Shape{out}));
    }
    if (!complete) p.matrices.clear();
    if (biases.empty()) return p;
    if (biases.size() != static_cast<size_t>(s_.num_experts)) {
      throw Error(Code::Corrupt, fmt::format("{}.*.{}: {} of {} experts have a bias", w.path(),
                                             name, biases.size(), s_.num_experts));
    }
    p.bias = Tensor::empty({s_.num_experts, out}, DType::F32);
    auto to = p.bias.host_mut<float>().begin();
    for (const Tensor& b : biases) to = std::ranges::copy(b.host<float>(), to).out;
    return p;
  }

  const io::Weights& w_;
  const ExpertNames& names_;
  const ExpertSizes& s_;
  Bias bias_;
};

bool same_formats(const Projection& a, const Projection& b) {
  const WeightFormat& format = a.matrices.front()->format();
  const auto same = [&](const Source& s) { return s->format() == format; };
  return std::ranges::all_of(a.matrices, same) && std::ranges::all_of(b.matrices, same);
}

std::shared_ptr<const ops::PackedExperts> pack(const Projection& p, const Projection* below) {
  std::vector<ops::ExpertSources> experts;
  for (size_t e = 0; e < p.matrices.size(); ++e) {
    experts.push_back({p.matrices[e].get()});
    if (below != nullptr) experts.back().push_back(below->matrices[e].get());
  }
  return ops::pack_experts(experts, kDevice);
}

/// [E, F] and [E, F] -> [E, 2F].
Tensor join(const Tensor& a, const Tensor& b) {
  const int64_t experts = a.dim(0), width = a.dim(1);
  Tensor out = Tensor::empty({experts, 2 * width}, DType::F32);
  const auto left = a.host<float>(), right = b.host<float>();
  auto to = out.host_mut<float>().begin();
  const auto n = static_cast<size_t>(width);
  for (size_t e = 0; e < static_cast<size_t>(experts); ++e) {
    to = std::ranges::copy(left.subspan(e * n, n), to).out;
    to = std::ranges::copy(right.subspan(e * n, n), to).out;
  }
  return out;
}

}  // namespace

int64_t ExpertWeights::bytes() const {
  int64_t total = 0;
  for (const auto* p : {&gate, &up, &down}) total += *p ? (*p)->bytes() : 0;
  for (const Tensor* b : {&gate_bias, &up_bias, &down_bias}) total += *b ? b->bytes() : 0;
  return total;
}

ExpertWeights take_experts(const io::Weights& w, const ExpertNames& names, const ExpertSizes& sizes,
                           Bias bias) {
  if (!(w.device() == kDevice)) {
    throw Error(Code::Unsupported, fmt::format("{}: mixtures of experts run on the CPU only; set "
                                               "MLXCEL_DEVICE=cpu",
                                               w.path()));
  }
  const auto [gate, up, down] = Reader(w, names, sizes, bias).read();
  ExpertWeights out;
  out.gate_bias = gate.bias;
  out.up_bias = up.bias;
  out.down_bias = down.bias;
  const bool gated = !names.gate.empty();
  if (up.matrices.empty() || down.matrices.empty()) return out;
  if (gated && gate.matrices.empty()) return out;
  if (!gated) {
    out.up = pack(up, nullptr);
  } else if (same_formats(gate, up) && bool(gate.bias) == bool(up.bias)) {
    out.gate = pack(gate, &up);
    if (gate.bias) out.gate_bias = join(gate.bias, up.bias);
    out.up_bias = {};
  } else {
    out.gate = pack(gate, nullptr);
    out.up = pack(up, nullptr);
  }
  out.down = pack(down, nullptr);
  return out;
}

}  // namespace mlxcel::nn

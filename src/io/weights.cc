#include "io/weights.h"

#include <fmt/core.h>

#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "io/matrix_sources.h"
#include "io/quoted_name.h"
#include "io/weights_root.h"
#include "tensor/matrix_views.h"

namespace mlxcel::io {
namespace {

constexpr int64_t kMaxStandInBytes = int64_t{1} << 30;

Error wrong_shape(const std::string& source, const std::string& name,
                  std::span<const int64_t> found, std::span<const int64_t> expected) {
  return {Code::Corrupt,
          fmt::format("{}: tensor {} has shape {}, but the configuration asks for {}", source,
                      quote(name), shape_text(found), shape_text(expected))};
}

// Rows and columns with leading dimensions beyond two counted as rows; false when they differ from
// the expected ones.
bool is_matrix(std::span<const int64_t> dims, int64_t rows, int64_t cols) {
  if (dims.size() < 2 || dims.back() != cols) return false;
  int64_t product = 1;
  for (const int64_t d : dims.first(dims.size() - 1)) product *= d;
  return product == rows;
}

bool is_scale_type(DType t) { return t == DType::F32 || t == DType::F16 || t == DType::BF16; }

// Row bytes are moved as a whole; a vector counts as a matrix with one column.
Tensor copy_in_order(const StoredTensor& t, const std::string& name) {
  Tensor out = Tensor::empty(Shape(t.dims), t.dtype);
  auto* to = static_cast<std::byte*>(out.raw());
  if (t.permute_heads == 0 || t.dims.empty()) {
    if (!t.data.empty()) std::memcpy(to, t.data.data(), t.data.size());
    return out;
  }
  const int64_t rows = t.dims.front();
  if (rows % t.permute_heads != 0 || rows / t.permute_heads % 2 != 0) {
    throw Error(Code::Corrupt, fmt::format("tensor {}: {} rows do not divide into {} rotary heads",
                                           quote(name), rows, t.permute_heads));
  }
  const RowOrder order{.rows = rows, .heads = t.permute_heads};
  const size_t stride = rows > 0 ? t.data.size() / static_cast<size_t>(rows) : 0;
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(to + static_cast<size_t>(r) * stride,
                t.data.data() + static_cast<size_t>(order.stored(r)) * stride, stride);
  }
  return out;
}

}  // namespace

int64_t ParallelGroup::divide(int64_t whole) const {
  if (whole % size != 0) {
    throw Error(Code::Unsupported,
                fmt::format("{} does not divide into {} tensor-parallel ranks", whole, size));
  }
  return whole / size;
}

void Weights::Root::add(const std::string& name, StoredTensor tensor) {
  total_bytes += static_cast<int64_t>(tensor.data.size());
  const auto [it, fresh] = tensors.emplace(name, std::move(tensor));
  if (!fresh) {
    throw Error(Code::Corrupt,
                fmt::format("{}: tensor {} occurs more than once (last seen in {})", source,
                            quote(name), it->second.file ? it->second.file->path() : source));
  }
}

const StoredTensor* Weights::Root::use(const std::string& name) {
  const auto it = tensors.find(name);
  if (it == tensors.end()) return nullptr;
  const std::lock_guard lock(mutex);
  it->second.used = true;
  return &it->second;
}

void Weights::Root::record_missing(const std::string& name, int64_t elements) {
  const std::lock_guard lock(mutex);
  missing.insert(name);
  constexpr int64_t kBytes = 4;
  if (elements <= (kMaxStandInBytes - stand_in_bytes) / kBytes) {
    stand_in_bytes += elements * kBytes;
    return;
  }
  std::string names;
  for (const std::string& each : missing) names += "\n  " + quote(each);
  throw Error(Code::Corrupt, fmt::format("{}: {} tensors were missing when loading stopped:{}",
                                         source, missing.size(), names));
}

std::optional<std::string> renamed(std::string name, std::span<const Rename> rules) {
  for (const auto& [from, to] : rules) {
    const size_t star = from.find('*');
    std::string_view middle;
    if (star == std::string_view::npos) {
      if (name != from) continue;
    } else {
      const std::string_view head = from.substr(0, star), tail = from.substr(star + 1);
      if (name.size() < head.size() + tail.size() || !name.starts_with(head) ||
          !name.ends_with(tail)) {
        continue;
      }
      middle = std::string_view(name).substr(head.size(), name.size() - head.size() - tail.size());
    }
    if (to.empty()) return std::nullopt;
    const size_t place = to.find('*');
    std::string next(to.substr(0, place));
    if (place != std::string_view::npos) {
      next += middle;
      next += to.substr(place + 1);
    }
    name = std::move(next);
  }
  return name;
}

Weights::Weights() : root_(std::make_shared<Root>()) {}
Weights::Weights(std::shared_ptr<Root> root, std::string prefix, bool transposed)
    : root_(std::move(root)), prefix_(std::move(prefix)), transposed_(transposed) {}

std::string Weights::full(std::string_view leaf) const {
  return prefix_.empty() ? std::string(leaf) : fmt::format("{}.{}", prefix_, leaf);
}

Weights Weights::at(std::string_view name) const { return Weights(root_, full(name), transposed_); }

Weights Weights::at(std::string_view name, int64_t index) const {
  return Weights(root_, fmt::format("{}.{}", full(name), index), transposed_);
}

Weights Weights::with_transposed_matrices() const { return Weights(root_, prefix_, true); }

std::optional<Shape> Weights::shape(std::string_view leaf) const {
  const auto it = root_->tensors.find(full(leaf));
  if (it == root_->tensors.end()) return std::nullopt;
  return Shape(it->second.dims);
}

bool Weights::has(std::string_view leaf) const {
  const std::string name = full(leaf);
  const auto it = root_->tensors.lower_bound(name);
  if (it == root_->tensors.end()) return false;
  if (it->first == name) return true;
  const auto below = root_->tensors.lower_bound(name + ".");
  return below != root_->tensors.end() && below->first.starts_with(name + ".");
}

std::vector<int64_t> Weights::dims(std::string_view leaf) const {
  const auto it = root_->tensors.find(full(leaf));
  return it == root_->tensors.end() ? std::vector<int64_t>{} : it->second.dims;
}

Tensor Weights::take(std::string_view leaf, const Shape& expected) const {
  const std::string name = full(leaf);
  const StoredTensor* t = root_->use(name);
  if (t == nullptr) {
    root_->record_missing(name, expected.numel());
    return Tensor::zeros(expected, DType::F32);
  }
  if (!std::ranges::equal(t->dims, expected.dims())) {
    throw wrong_shape(root_->source, name, t->dims, expected.dims());
  }
  if (t->blocks != nullptr) {
    throw Error(Code::Unsupported,
                fmt::format("{}: tensor {} is stored as {} blocks where plain elements are needed",
                            root_->source, quote(name), t->blocks->name));
  }
  const auto alignment = static_cast<uintptr_t>(size_of(t->dtype));
  if (t->permute_heads > 0 || reinterpret_cast<uintptr_t>(t->data.data()) % alignment != 0) {
    return copy_in_order(*t, name);
  }
  return Tensor::over(Buffer::borrow(t->data, t->file), 0, Shape(t->dims), t->dtype);
}

Tensor Weights::take_f32(std::string_view leaf, const Shape& expected) const {
  const auto it = root_->tensors.find(full(leaf));
  const bool coded = it != root_->tensors.end() &&
                     (it->second.blocks != nullptr || (leaf == "weight" && has("scales")));
  if (!coded) return take(leaf, expected).to_f32();
  const int64_t cols = expected.rank() > 0 ? expected[-1] : 1;
  const int64_t rows = cols > 0 ? expected.numel() / cols : 0;
  const auto source = leaf == "weight" ? take_matrix(rows, cols) : matrix(leaf, rows, cols);
  Tensor out = Tensor::empty(expected, DType::F32);
  source->read_f32(0, rows, out.host_mut<float>().data());
  return out;
}

std::shared_ptr<const MatrixSource> Weights::take_matrix(int64_t rows, int64_t cols) const {
  if (auto blocks = stored_in_blocks(rows, cols)) return blocks;
  if (root_->tensors.contains(full("scales"))) return affine_matrix(rows, cols);
  if (transposed_) return transposed(matrix("weight", cols, rows));
  return matrix("weight", rows, cols);
}

std::shared_ptr<const MatrixSource> Weights::matrix(std::string_view leaf, int64_t rows,
                                                    int64_t cols) const {
  const std::string name = full(leaf);
  const StoredTensor* t = root_->use(name);
  MatrixInfo info{.name = name, .rows = rows, .cols = cols};
  if (t == nullptr) {
    root_->record_missing(name, Shape{rows, cols}.numel());
    return zero_matrix(std::move(info));
  }
  const bool fits = t->dims.size() < 2 ? rows == 1 && t->dims == std::vector<int64_t>{cols}
                                       : is_matrix(t->dims, rows, cols);
  if (!fits) {
    const int64_t expected[] = {rows, cols};
    throw wrong_shape(root_->source, name, t->dims, expected);
  }
  info.order = {.rows = rows, .heads = t->permute_heads};
  info.file = t->file;
  return with_context(root_->source, [&] {
    return t->blocks != nullptr ? gguf_block_matrix(std::move(info), *t->blocks, t->data)
                                : dense_matrix(std::move(info), t->dtype, t->data);
  });
}

std::shared_ptr<const MatrixSource> Weights::affine_matrix(int64_t rows, int64_t cols) const {
  const std::string name = full("weight");
  const StoredTensor* codes = root_->use(name);
  const StoredTensor* scales = root_->use(full("scales"));
  MatrixInfo info{.name = name, .rows = rows, .cols = cols};
  if (codes == nullptr) {
    root_->record_missing(name, Shape{rows, cols}.numel());
    return zero_matrix(std::move(info));
  }
  const std::string module = codes->stored_name.substr(0, codes->stored_name.rfind('.'));
  const StoredTensor* biases = root_->use(full("biases"));
  // The shapes decide: widths vary by matrix, and configs do not always say so.
  const int64_t words = codes->dims.empty() ? 0 : codes->dims.back();
  const int64_t groups = scales->dims.empty() ? 0 : scales->dims.back();
  const int64_t bits = words > 0 && words < (int64_t{1} << 40) && cols > 0 && words * 32 % cols == 0
                           ? words * 32 / cols
                           : 0;
  const int64_t group = groups > 0 && cols % groups == 0 ? cols / groups : 0;
  if (codes->dtype != DType::U32 || !is_scale_type(scales->dtype) ||
      !is_scale_type(biases->dtype) || scales->dims != biases->dims || !valid_affine(bits, group) ||
      !is_matrix(codes->dims, rows, words) || !is_matrix(scales->dims, rows, groups)) {
    throw Error(
        Code::Corrupt,
        fmt::format(
            "{}: matrix {} of {} x {} does not fit its tensors: weight {} {}, scales {} {}, "
            "biases {} {}",
            root_->source, quote(prefix_), rows, cols, dtype_name(codes->dtype),
            shape_text(codes->dims), dtype_name(scales->dtype), shape_text(scales->dims),
            dtype_name(biases->dtype), shape_text(biases->dims)));
  }
  const auto declared = root_->quantization.declared(module);
  if (!declared || declared->bits != bits || declared->group_size != group) {
    log::debug("{}: {} is stored with {} bits in groups of {}, unlike the config says",
               root_->source, quote(prefix_), bits, group);
  }
  info.file = codes->file;
  return mlx_matrix(std::move(info), {.bits = static_cast<uint8_t>(bits),
                                      .group = static_cast<uint16_t>(group),
                                      .scale_type = scales->dtype,
                                      .bias_type = biases->dtype,
                                      .codes = codes->data,
                                      .scales = scales->data,
                                      .biases = biases->data,
                                      .scales_file = scales->file,
                                      .biases_file = biases->file});
}

Device Weights::device() const { return root_->device; }
const ParallelGroup& Weights::tp() const { return root_->tp; }
std::string Weights::path() const { return prefix_; }

std::vector<std::string> Weights::unused() const {
  std::vector<std::string> out;
  const std::lock_guard lock(root_->mutex);
  for (const auto& [name, tensor] : root_->tensors) {
    if (!tensor.used) out.push_back(name);
  }
  return out;
}

std::vector<std::string> Weights::missing() const {
  const std::lock_guard lock(root_->mutex);
  return {root_->missing.begin(), root_->missing.end()};
}

int64_t Weights::total_bytes() const { return root_->total_bytes; }

}  // namespace mlxcel::io

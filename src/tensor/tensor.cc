#include "tensor/tensor.h"

#include <fmt/core.h>

#include <cstring>
#include <vector>

#include "base/error.h"
#include "tensor/device.h"

namespace mlxcel {
namespace {

std::array<int64_t, Shape::kMaxRank> row_major_strides(const Shape& shape) {
  std::array<int64_t, Shape::kMaxRank> strides{};
  int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<size_t>(axis)] = step;
    step *= shape[axis];
  }
  return strides;
}

}  // namespace

Tensor Tensor::empty(Shape shape, DType dtype, Device device) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.numel(), size_of(dtype), &bytes)) {
    throw Error(Code::ResourceExhausted, fmt::format("a {} tensor of shape {} is not possible",
                                                     dtype_name(dtype), shape.str()));
  }
  auto buffer =
      device.kind == DeviceKind::Cpu ? Buffer::host(bytes) : device_runtime(device).allocate(bytes);
  return over(std::move(buffer), 0, shape, dtype);
}

Tensor Tensor::zeros(Shape shape, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, device);
  fill_bytes(device, t.raw(), 0, t.bytes());
  return t;
}

Tensor Tensor::over(std::shared_ptr<Buffer> buffer, int64_t offset_bytes, Shape shape,
                    DType dtype) {
  Tensor t;
  t.shape_ = shape;
  t.dtype_ = dtype;
  t.strides_ = row_major_strides(shape);
  t.offset_bytes_ = offset_bytes;
  if (offset_bytes < 0 || shape.numel() > (int64_t{1} << 58) || offset_bytes > buffer->size() ||
      t.bytes() > buffer->size() - offset_bytes) {
    throw Error(Code::InvalidArgument,
                fmt::format("a {} tensor of shape {} at byte {} does not fit {} bytes",
                            dtype_name(dtype), shape.str(), offset_bytes, buffer->size()));
  }
  t.buffer_ = std::move(buffer);
  return t;
}

Tensor Tensor::of(std::span<const float> values, Shape shape) {
  MLXCEL_CHECK(shape.numel() == static_cast<int64_t>(values.size()),
               "values do not match the shape");
  Tensor t = empty(shape, DType::F32);
  if (!values.empty()) std::memcpy(t.raw(), values.data(), values.size_bytes());
  return t;
}

Tensor Tensor::of(std::span<const int32_t> values, Shape shape) {
  MLXCEL_CHECK(shape.numel() == static_cast<int64_t>(values.size()),
               "values do not match the shape");
  Tensor t = empty(shape, DType::I32);
  if (!values.empty()) std::memcpy(t.raw(), values.data(), values.size_bytes());
  return t;
}

int64_t Tensor::stride(int axis) const {
  (void)shape_[axis];
  return strides_[static_cast<size_t>(axis < 0 ? axis + shape_.rank() : axis)];
}

Device Tensor::device() const { return buffer_ ? buffer_->device() : Device{}; }

bool Tensor::contiguous() const {
  int64_t step = 1;
  for (int axis = shape_.rank() - 1; axis >= 0; --axis) {
    if (shape_[axis] != 1 && strides_[static_cast<size_t>(axis)] != step) return false;
    step *= shape_[axis];
  }
  return true;
}

Tensor Tensor::view(std::initializer_list<int64_t> shape) const {
  std::vector<int64_t> dims(shape);
  int64_t known = 1;
  int unknown = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == -1) {
      MLXCEL_CHECK(unknown < 0, "view() accepts one -1");
      unknown = static_cast<int>(i);
    } else {
      if (__builtin_mul_overflow(known, dims[i], &known)) {
        throw Error(Code::InvalidArgument, "a view has too many elements");
      }
    }
  }
  if (unknown >= 0) {
    MLXCEL_CHECK(known > 0 && numel() % known == 0, "view() cannot infer a dimension");
    dims[static_cast<size_t>(unknown)] = numel() / known;
  }
  Tensor t = *this;
  t.shape_ = Shape(std::span<const int64_t>(dims));
  if (t.shape_.numel() != numel()) {
    throw Error(Code::InvalidArgument,
                fmt::format("cannot view {} as {}", shape_.str(), t.shape_.str()));
  }
  t.strides_ = row_major_strides(t.shape_);
  if (contiguous()) return t;
  const bool same_rows = shape_.rank() > 0 && t.shape_.rank() > 0 && t.shape_[0] == shape_[0];
  MLXCEL_CHECK(same_rows && (shape_[0] == 0 || slice(0, 0, 1).contiguous()),
               "view() needs a contiguous tensor, or contiguous rows that stay the first axis");
  t.strides_[0] = strides_[0];
  return t;
}

Tensor Tensor::slice(int axis, int64_t begin, int64_t end) const {
  const int64_t size = shape_[axis];  // refuses an axis out of range
  const int at = axis < 0 ? axis + shape_.rank() : axis;
  if (begin < 0 || end < begin || end > size) {
    throw Error(Code::InvalidArgument,
                fmt::format("slice [{}, {}) of axis {} of {}", begin, end, axis, shape_.str()));
  }
  Tensor t = *this;
  std::vector<int64_t> dims(shape_.dims().begin(), shape_.dims().end());
  dims[static_cast<size_t>(at)] = end - begin;
  t.shape_ = Shape(std::span<const int64_t>(dims));
  t.offset_bytes_ += begin * strides_[static_cast<size_t>(at)] * size_of(dtype_);
  return t;
}

const void* Tensor::raw() const {
  return buffer_ ? static_cast<const char*>(std::as_const(*buffer_).data()) + offset_bytes_
                 : nullptr;
}

void* Tensor::raw() {
  if (!buffer_) return nullptr;
  MLXCEL_CHECK(buffer_->writable(), "writing to a read-only tensor");
  return static_cast<char*>(buffer_->data()) + offset_bytes_;
}

Tensor Tensor::to(Device target) const {
  if (!buffer_ || device() == target) return *this;
  MLXCEL_CHECK(contiguous(), "only contiguous tensors move between devices");
  Tensor out = empty(shape_, dtype_, target);
  if (bytes() == 0) return out;
  if (target.kind == DeviceKind::Cpu) {
    device_runtime(device()).download(out.raw(), raw(), bytes());
  } else {
    MLXCEL_CHECK(device().kind == DeviceKind::Cpu, "a tensor moves to a device from the host");
    device_runtime(target).upload(out.raw(), raw(), bytes());
  }
  return out;
}

Tensor Tensor::to_f32() const {
  if (device().kind != DeviceKind::Cpu) {
    Tensor host = to(Device{});
    return dtype_ == DType::F32 ? host : host.to_f32();
  }
  check_host(static_cast<size_t>(size_of(dtype_)), is_float(dtype_));
  Tensor out = empty(shape_, DType::F32);
  convert_to_f32(dtype_, raw(), static_cast<float*>(out.raw()), numel());
  return out;
}

void Tensor::check_host(size_t element_size, bool floating) const {
  MLXCEL_CHECK(device().kind == DeviceKind::Cpu, "host access to a device tensor");
  MLXCEL_CHECK(contiguous(), "host access to a strided tensor");
  const bool wide_float = dtype_ == DType::F32 || dtype_ == DType::F64;
  MLXCEL_CHECK(static_cast<size_t>(size_of(dtype_)) == element_size &&
                   (!floating || wide_float || element_size < 4),
               "host access with another element type");
}

}  // namespace mlxcel

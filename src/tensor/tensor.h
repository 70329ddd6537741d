// A typed, strided view onto a shared Buffer.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace mlxcel {

/// Copying a Tensor copies the view, never the data. Row-major; strides are in elements.
class Tensor {
 public:
  Tensor() = default;
  /// Uninitialized memory.
  static Tensor empty(Shape shape, DType dtype, Device device = {});
  static Tensor zeros(Shape shape, DType dtype, Device device = {});
  /// A contiguous view of `buffer` from `offset_bytes`; throws InvalidArgument when it does not
  /// fit.
  static Tensor over(std::shared_ptr<Buffer> buffer, int64_t offset_bytes, Shape shape,
                     DType dtype);
  /// A host copy of `values`, shape [n] unless given.
  static Tensor of(std::span<const float> values, Shape shape);
  static Tensor of(std::span<const int32_t> values, Shape shape);

  explicit operator bool() const { return buffer_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t dim(int axis) const { return shape_[axis]; }
  int64_t stride(int axis) const;
  int64_t numel() const { return shape_.numel(); }
  int64_t bytes() const { return numel() * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const;
  bool contiguous() const;

  /// The same elements in another shape; one dim may be -1. Of a contiguous tensor, or of
  /// contiguous rows at a stride (a slice of columns) when the first axis stays.
  Tensor view(std::initializer_list<int64_t> shape) const;
  Tensor slice(int axis, int64_t begin, int64_t end) const;  // no copy
  const void* raw() const;                                   // first element
  void* raw();                                               // throws when the buffer is read-only
  /// Contiguous CPU data of type T (float, int32_t, uint32_t, uint16_t, uint8_t, int8_t, int64_t);
  /// dtype checked.
  template <class T>
  std::span<const T> host() const {
    check_host(sizeof(T), std::is_floating_point_v<T>);
    return {static_cast<const T*>(raw()), static_cast<size_t>(numel())};
  }
  template <class T>
  std::span<T> host_mut() {
    check_host(sizeof(T), std::is_floating_point_v<T>);
    return {static_cast<T*>(raw()), static_cast<size_t>(numel())};
  }
  /// The same values on `target`: this tensor when it lies there, else a copy (contiguous tensors,
  /// between the host and a device). Waits when the target is the host.
  Tensor to(Device target) const;
  /// A contiguous f32 copy on the CPU, for tests and small host-side work.
  Tensor to_f32() const;
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }

 private:
  void check_host(size_t element_size, bool floating) const;
  std::shared_ptr<Buffer> buffer_;
  int64_t offset_bytes_ = 0;
  Shape shape_;
  std::array<int64_t, Shape::kMaxRank> strides_{};
  DType dtype_ = DType::F32;
};

}  // namespace mlxcel

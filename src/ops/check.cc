#include "ops/check.h"

#include <fmt/core.h>

#include "base/error.h"

namespace mlxcel::ops {

void bad_argument(std::string_view op, const std::string& message) {
  throw Error(Code::InvalidArgument, fmt::format("{}: {}", op, message));
}

void require_kernel(bool present, std::string_view op, DeviceKind kind) {
  if (present) return;
  throw Error(Code::Unsupported,
              fmt::format("{} on {}", op, kind == DeviceKind::Cpu ? "cpu" : "cuda"));
}

RowView row_view(std::string_view op, std::string_view name, const Tensor& x) {
  if (!x) bad_argument(op, fmt::format("{} is missing", name));
  const bool may_be_narrow = x.device().kind != DeviceKind::Cpu;
  if (x.dtype() != DType::F32 && !(may_be_narrow && x.dtype() == DType::BF16)) {
    bad_argument(op, fmt::format("{} is {}, expected f32{}", name, dtype_name(x.dtype()),
                                 may_be_narrow ? " or bf16" : ""));
  }
  const int rank = x.shape().rank();
  if (rank < 1) bad_argument(op, fmt::format("{} has no axis", name));
  RowView v;
  v.data = static_cast<const float*>(x.raw());
  v.dim = x.dim(-1);
  v.type = x.dtype();
  bool regular = v.dim <= 1 || x.stride(-1) == 1;
  // Axes 1 .. rank - 2 must be row-major among themselves.
  int64_t step = v.dim;
  for (int axis = rank - 2; axis >= 1; --axis) {
    regular = regular && (x.dim(axis) <= 1 || x.stride(axis) == step);
    v.inner *= x.dim(axis);
    step *= x.dim(axis);
  }
  v.outer = rank >= 2 ? x.dim(0) : 1;
  v.outer_stride = rank >= 2 ? x.stride(0) : v.dim;
  if (!regular && x.numel() > 0) {
    bad_argument(op, fmt::format("{} of shape {} is strided inside a row", name, x.shape().str()));
  }
  if (v.inner == 0) {
    v.inner = 1;
    v.outer = 0;
  }
  return v;
}

const float* vector_of(std::string_view op, std::string_view name, const Tensor& t, int64_t count,
                       bool optional, Device device) {
  if (!t) {
    if (optional) return nullptr;
    bad_argument(op, fmt::format("{} is missing", name));
  }
  if (t.dtype() != DType::F32 || t.numel() != count || !t.contiguous()) {
    bad_argument(op, fmt::format("{} is {} {}, expected {} contiguous f32 values", name,
                                 dtype_name(t.dtype()), t.shape().str(), count));
  }
  if (!(t.device() == device)) bad_argument(op, fmt::format("{} is on another device", name));
  return static_cast<const float*>(t.raw());
}

const int32_t* indices_of(std::string_view op, std::string_view name, const Tensor& t,
                          Device device) {
  if (!t || t.dtype() != DType::I32 || t.shape().rank() != 1 || !t.contiguous()) {
    bad_argument(op, fmt::format("{} must be a contiguous i32 vector", name));
  }
  if (!(t.device() == device)) bad_argument(op, fmt::format("{} is on another device", name));
  return static_cast<const int32_t*>(t.raw());
}

void check_alike(std::string_view op, const Tensor& a, const Tensor& b) {
  if (!(a.device() == b.device())) bad_argument(op, "the operands are on different devices");
  if (a.dtype() == b.dtype()) return;
  bad_argument(
      op, fmt::format("the operands are {} and {}", dtype_name(a.dtype()), dtype_name(b.dtype())));
}

}  // namespace mlxcel::ops

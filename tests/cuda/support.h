// What the GPU tests share: a device or a skip, values in either activation type, comparison with
// the reference backend on the very values that the GPU got.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "backend/register.h"
#include "ops/support.h"
#include "tensor/device.h"

namespace mlxcel::testing {

constexpr Device kGpu{.kind = DeviceKind::Cuda, .index = 0};

class Gpu : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    backend::register_all();
    if (find_device(DeviceKind::Cuda) == nullptr) {
      GTEST_SKIP() << "no GPU: " << backend::gpu_unavailable_reason();
    }
  }
  void TearDown() override {
    if (DeviceRuntime* gpu = find_device(DeviceKind::Cuda)) gpu->synchronize();
  }
  DType type() const { return GetParam(); }
  /// Largest error that rounding results to the activation type explains, relative to the largest
  /// value, times `units`.
  double tolerance(double exact, double units = 1.0) const {
    return type() == DType::F32 ? exact : units / 256.0;
  }

  /// `host` rounded to the activation type, on the GPU.
  Tensor to_gpu(const Tensor& host) const {
    Tensor narrow = Tensor::empty(host.shape(), type());
    convert_from_f32(type(), host.host<float>().data(), narrow.raw(), host.numel());
    return narrow.to(kGpu);
  }
  /// What to_gpu keeps of the values, in f32.
  Tensor rounded(const Tensor& host) const {
    Tensor narrow = Tensor::empty(host.shape(), type());
    convert_from_f32(type(), host.host<float>().data(), narrow.raw(), host.numel());
    return narrow.to_f32();
  }
};

inline std::vector<float> values(const Tensor& t) {
  const Tensor host = t.to_f32();
  const auto span = host.host<float>();
  return {span.begin(), span.end()};
}

inline ops::RowView rows_of(const Tensor& t) {
  return {.data = t.host<float>().data(),
          .outer = t.dim(0),
          .inner = 1,
          .outer_stride = t.dim(1),
          .dim = t.dim(1)};
}

}  // namespace mlxcel::testing

// The device that golden and invariance tests run on.
#pragma once

#include <gtest/gtest.h>

#include "base/env.h"
#include "tensor/device.h"

namespace mlxcel::testing {

/// The GPU when MLXCEL_DEVICE is gpu and there is one, else the CPU. Fails the test that asks for a
/// GPU in vain, so that a run without one does not pass for a run with one.
inline Device test_device() {
  if (env::get("MLXCEL_DEVICE").value_or("cpu") != "gpu") return {};
  if (find_device(DeviceKind::Cuda) == nullptr) {
    ADD_FAILURE() << "MLXCEL_DEVICE=gpu, but no GPU is usable";
    return {};
  }
  return {.kind = DeviceKind::Cuda, .index = 0};
}

/// Whether models compute in f32 there, so that the tight tolerances of f32 apply.
inline bool exact_activations() { return activation_type(test_device()) == DType::F32; }

}  // namespace mlxcel::testing

// Loads a checkpoint where the tests run: on the GPU when MLXCEL_DEVICE asks for it and the family
// runs there, else on the CPU.
#pragma once

#include <string>

#include "io/checkpoint.h"
#include "models/family.h"
#include "testing/device.h"

namespace mlxcel::testing {

inline models::LoadedModel load_for_test(const std::string& path) {
  const io::Checkpoint checkpoint = io::open_checkpoint(path);
  return models::load(checkpoint, models::device_for(checkpoint, test_device()));
}

}  // namespace mlxcel::testing

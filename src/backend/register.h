// Fills the tables of kernels. Programs and tests call this once before any op.
#pragma once

#include <string>

namespace mlxcel::backend {

/// Registers the kernels of every backend in this build, and the GPU when there is one and
/// MLXCEL_DEVICE does not say otherwise. Thread-safe; later calls do nothing.
void register_all();

/// The backends of this build, for example "cpu, cuda".
std::string names();

/// Why no GPU can be used; empty when one can.
std::string gpu_unavailable_reason();

}  // namespace mlxcel::backend

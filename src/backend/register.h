// Fills the tables of kernels. Programs and tests call this once before any op.
#pragma once

namespace mlxcel::backend {

/// Registers the kernels of every backend in this build. Thread-safe; later calls do nothing.
void register_all();

}  // namespace mlxcel::backend

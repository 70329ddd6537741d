// What this machine can do at most, measured: the rates that kernels are compared with.
#pragma once

#include <string>

namespace mlxcel::backend {

/// Of all threads of the kernel pool together. Zero where the instruction set has no such kernel.
struct Ceilings {
  double read_gb_s = 0;    // reading memory that is in no cache
  double f32_gflop_s = 0;  // multiply-adds, two operations each
  double int16_gop_s = 0;  // products of sixteen-bit integers and their sums, likewise
};

/// Measures for about a second, with the pool in use and the level of the CPU kernels.
Ceilings measure_ceilings();

}  // namespace mlxcel::backend

// The weight formats that tensor-core kernels unpack, one row each.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/fragment_layout.h"

namespace mlxcel::cuda {

struct MmaParams;

struct MmaFormat {
  int bits = 0;
  bool symmetric = false, two_levels = false;
  int sets = 0;  // groups in 64 columns
  void (*run)(const MmaParams& p) = nullptr;
  /// Writes the weights as the products round them, row-major [rows, cols] in bf16.
  void (*unpack)(const FragmentLayout& l, const uint8_t* data, void* out) = nullptr;
};

/// Null for formats without such kernels.
const MmaFormat* find_mma_format(const FragmentLayout& l);

// One file each, so that compilers can work side by side.
extern const MmaFormat kFormat4Pair64, kFormat4Pair32, kFormat4Symmetric32, kFormat4TwoPair;
extern const MmaFormat kFormat8Pair64, kFormat8Pair32, kFormat8Symmetric32;
extern const MmaFormat kFormat6Pair64, kFormat6Pair32, kFormat6TwoSymmetric;
extern const MmaFormat kFormat5Pair64, kFormat5Pair32, kFormat5Symmetric32, kFormat5TwoPair;
extern const MmaFormat kFormat3Pair64, kFormat3Pair32, kFormat3TwoSymmetric;
extern const MmaFormat kFormat2Pair64, kFormat2Pair32, kFormat2TwoPair;
extern const MmaFormat kFormatDense;

}  // namespace mlxcel::cuda

// Weights as tensor-core products round them, written out row by row for a library's product.
#pragma once

#include "backend/cuda/fragments.cuh"
#include "backend/cuda/runtime.h"

namespace mlxcel::cuda {

constexpr int kUnpackThreads = 256;

// One warp a tile.
template <class F>
__global__ void __launch_bounds__(kUnpackThreads)
    unpack_kernel(FragmentLayout l, const uint8_t* data, __nv_bfloat16* out) {
  const int64_t tile = (int64_t{blockIdx.x} * kUnpackThreads + threadIdx.x) / 32;
  if (tile >= l.tile_rows * l.tile_cols) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t tile_row = tile / l.tile_cols, tile_col = tile % l.tile_cols;
  TileWords<F> w;
  TileReader<F>(l, data, tile_row, lane).load(static_cast<int>(tile_col), w);
  GroupScales<F> scales;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if constexpr (!F::kDense) {
      if (j % (4 / F::kSets) == 0) {
        scales = group_scales<F>(w, j / (4 / F::kSets), l.scale_type == DType::F16);
      }
    }
    uint32_t a[4];
    fragment<F>(w, scales, j, a);
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const int64_t row = tile_row * kTileRows + lane / 4 + p % 2 * 8;
      const int64_t col = tile_col * kTileCols + j * 16 + lane % 4 * 2 + p / 2 * 8;
      if (row < l.rows && col < l.cols) {
        *reinterpret_cast<uint32_t*>(out + row * l.cols + col) = a[p];
      }
    }
  }
}

template <class F>
void unpack_weights(const FragmentLayout& l, const uint8_t* data, void* out) {
  const int64_t tiles = l.tile_rows * l.tile_cols;
  constexpr int64_t kPerBlock = kUnpackThreads / 32;
  unpack_kernel<F>
      <<<static_cast<unsigned>((tiles + kPerBlock - 1) / kPerBlock), kUnpackThreads, 0, stream()>>>(
          l, data, static_cast<__nv_bfloat16*>(out));
  MLXCEL_CUDA_LAUNCHED("unpack");
}

}  // namespace mlxcel::cuda

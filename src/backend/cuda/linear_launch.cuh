// Launching the kernels of linear_kernels.cuh.
#pragma once

#include <algorithm>

#include "backend/cuda/linear_kernels.cuh"
#include "backend/cuda/linear_wide.cuh"
#include "backend/cuda/runtime.h"

namespace mlxcel::cuda {

constexpr int kMostShared = 224 << 10, kMostWhole = 150 << 10;

using MmaKernel = void (*)(MmaParams);

struct MmaGrid {
  dim3 blocks;
  int threads = kMmaThreads, cluster = 1;
  int64_t shared = 0;
};

template <MmaKernel kKernel>
void launch_product(const MmaParams& p, const MmaGrid& grid) {
  static const bool prepared = [] {
    MLXCEL_CUDA(
        cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostShared));
    return true;
  }();
  (void)prepared;
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.dynamicSmemBytes = static_cast<size_t>(grid.shared);
  config.stream = stream();
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {1, static_cast<unsigned>(grid.cluster), 1};
  config.attrs = attributes;
  config.numAttrs = grid.cluster > 1 ? 2 : 1;
  MLXCEL_CUDA(cudaLaunchKernelEx(&config, kKernel, p));
}

template <class F, int kNTiles>
void launch_mma(const MmaParams& p) {
  constexpr int kColumns = kNTiles * 8;
  constexpr int64_t kStages = int64_t{kChunkStages} * kColumns * kChunkStride * 2;
  constexpr int64_t kSums = int64_t{kColumns} * (kMmaRows + 4) * 4;
  launch_product<mma_kernel<F, kNTiles>>(
      p, {.blocks = dim3(static_cast<unsigned>((p.layout.tile_rows + kMmaWarps - 1) / kMmaWarps),
                         static_cast<unsigned>(p.slices),
                         static_cast<unsigned>((p.m + kColumns - 1) / kColumns)),
          .cluster = p.slices,
          .shared = std::max(kStages, kSums)});
}

/// Blocks of as many rows of tiles as make every multiprocessor busy once, or several times.
template <class F>
void launch_few_rows(const MmaParams& p, int64_t shared) {
  const int64_t rows = p.layout.tile_rows, most = 32 / p.slices, sms = num_multiprocessors();
  int64_t tiles = (rows + sms - 1) / sms;
  if (tiles > most) tiles = std::max<int64_t>(1, 16 / p.slices);
  const MmaGrid grid{.blocks = dim3(static_cast<unsigned>((rows + tiles - 1) / tiles)),
                     .threads = static_cast<int>(tiles) * p.slices * 32,
                     .shared = std::max(shared, tiles * kTileRows * p.slices * 8 * 4)};
  if (grid.threads <= 512) {
    launch_product<few_rows_kernel<F, 512>>(p, grid);
  } else {
    launch_product<few_rows_kernel<F, 1024>>(p, grid);
  }
}

/// The kernel for p.m rows: x as a whole for up to 8 rows, else 8, 16 or 64 columns a block.
template <class F>
void run_mma(const MmaParams& p) {
  const int64_t whole = p.m * (p.layout.tile_cols * kTileCols + 8) * 2;
  if (p.m <= 8 && whole <= kMostWhole) return launch_few_rows<F>(p, whole);
  if (p.m <= 16) return launch_mma<F, 2>(p);
  constexpr int64_t kShared = int64_t{kWideStages} * kWideStageBytes + 1024;
  launch_product<wide_kernel<F>>(
      p, {.blocks = dim3(static_cast<unsigned>((p.layout.tile_rows + kMmaWarps - 1) / kMmaWarps),
                         static_cast<unsigned>(p.slices),
                         static_cast<unsigned>((p.m + kWideColumns - 1) / kWideColumns)),
          .cluster = p.slices,
          .shared = kShared});
}

}  // namespace mlxcel::cuda

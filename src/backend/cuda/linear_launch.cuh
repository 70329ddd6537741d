// Launching the kernels of linear_mma.cuh.
#pragma once

#include <algorithm>

#include "backend/cuda/linear_mma.cuh"
#include "backend/cuda/runtime.h"

namespace mlxcel::cuda {

template <class F, int kNTiles>
void launch_mma(const MmaParams& p) {
  constexpr int kColumns = kNTiles * 8;
  constexpr size_t kShared = std::max<size_t>(kChunkStages * kColumns * kChunkStride * 2,
                                              kColumns * (kMmaRows + 4) * sizeof(float));
  auto* kernel = mma_kernel<F, kNTiles>;
  static const bool prepared = [&] {
    MLXCEL_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
    return true;
  }();
  (void)prepared;
  cudaLaunchConfig_t config{};
  config.gridDim =
      dim3(static_cast<unsigned>((p.layout.tile_rows + kMmaWarps - 1) / kMmaWarps),
           static_cast<unsigned>(p.slices), static_cast<unsigned>((p.m + kColumns - 1) / kColumns));
  config.blockDim = dim3(kMmaThreads);
  config.dynamicSmemBytes = kShared;
  config.stream = stream();
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {1, static_cast<unsigned>(p.slices), 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  config.attrs = attributes;
  config.numAttrs = 2;
  MLXCEL_CUDA(cudaLaunchKernelEx(&config, kernel, p));
}

/// The kernel for p.m rows: 8, 16 or 64 columns a block.
template <class F>
void run_mma(const MmaParams& p) {
  if (p.m <= 8) return launch_mma<F, 1>(p);
  if (p.m <= 16) return launch_mma<F, 2>(p);
  launch_mma<F, 8>(p);
}

}  // namespace mlxcel::cuda

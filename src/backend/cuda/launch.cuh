// From argument structures to kernel parameters.
#pragma once

#include <algorithm>

#include "backend/cuda/convert.cuh"
#include "backend/cuda/ordering.cuh"
#include "backend/cuda/runtime.h"
#include "base/error.h"
#include "ops/op_table.h"

namespace mlxcel::cuda {

/// ops::RowView with its element type: row r starts at data + r / inner * outer_stride + r % inner
/// * dim.
template <class T>
struct Rows {
  const T* data = nullptr;
  int64_t count = 0, inner = 1, outer_stride = 0, dim = 0;
  __host__ __device__ const T* row(int64_t r) const {
    return inner == 1 ? data + r * outer_stride : data + r / inner * outer_stride + r % inner * dim;
  }
  /// Whether every row starts at a multiple of 16 bytes and has whole packs.
  bool aligned() const {
    constexpr int64_t n = 16 / sizeof(T);
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && dim % n == 0 && outer_stride % n == 0;
  }
};

template <class T>
Rows<T> rows_as(const ops::RowView& v) {
  return {.data = reinterpret_cast<const T*>(v.data),
          .count = v.rows(),
          .inner = v.inner,
          .outer_stride = v.outer_stride,
          .dim = v.dim};
}

/// Calls fn with a value of the C++ type of an activation type.
template <class Fn>
void with_activation(DType type, Fn&& fn) {
  if (type == DType::F32) return fn(float{});
  if (type == DType::BF16) return fn(__nv_bfloat16{});
  throw Error(Code::Internal, "activations on the GPU are f32 or bf16");
}

inline unsigned blocks_for(int64_t items, int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

/// Launches a kernel that may begin before its predecessor has ended (ordering.cuh).
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, unsigned threads, size_t shared,
            Arguments&&... arguments) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  config.stream = stream();
  config.attrs = &overlap;
  config.numAttrs = compute_capability() >= 90 ? 1 : 0;
  MLXCEL_CUDA(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

}  // namespace mlxcel::cuda

// The largest value of every row, without sorting: two launches, the second over the blocks of the
// first.
#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.cuh"

namespace mlxcel::cuda {
namespace {

constexpr int kThreads = 256, kParts = 32;

struct Best {
  float value;
  int32_t index;  // -1: nothing yet; -2: a NaN was seen
};

__device__ Best better(Best a, Best b) {
  if (a.index == -2 || b.index < 0) return b.index == -2 ? b : a;
  if (a.index < 0) return b;
  return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

__device__ Best best_of_block(Best mine) {
  __shared__ Best shared[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    mine = better(
        mine, {__shfl_xor_sync(~0U, mine.value, offset), __shfl_xor_sync(~0U, mine.index, offset)});
  }
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
  __syncthreads();
  for (int i = 0; i < kThreads / 32; ++i) mine = better(mine, shared[i]);
  return mine;
}

__global__ void __launch_bounds__(kThreads) part_kernel(Rows<float> x, Best* parts) {
  begin_kernel();
  const float* row = x.row(blockIdx.y);
  Best mine{-INFINITY, -1};
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < x.dim;
       i += kParts * kThreads) {
    const float v = row[i];
    if (v != v) mine = {v, -2};
    if (mine.index != -2 && v > mine.value) mine = {v, static_cast<int32_t>(i)};
  }
  mine = best_of_block(mine);
  if (threadIdx.x == 0) parts[blockIdx.y * kParts + blockIdx.x] = mine;
}

__global__ void __launch_bounds__(kThreads) join_kernel(const Best* parts, int32_t* out) {
  begin_kernel();
  Best mine{-INFINITY, -1};
  if (threadIdx.x < kParts) mine = parts[blockIdx.x * kParts + threadIdx.x];
  mine = best_of_block(mine);
  if (threadIdx.x == 0) out[blockIdx.x] = mine.index < 0 ? -1 : mine.index;
}

}  // namespace

void argmax_rows(const ops::ArgmaxArgs& a) {
  const auto rows = static_cast<unsigned>(a.x.rows());
  const Scratch parts(int64_t{rows} * kParts * static_cast<int64_t>(sizeof(Best)));
  launch(part_kernel, dim3(kParts, rows), kThreads, 0, rows_as<float>(a.x), parts.as<Best>());
  launch(join_kernel, rows, kThreads, 0, parts.as<Best>(), a.out);
  MLXCEL_CUDA_LAUNCHED("argmax_rows");
}

}  // namespace mlxcel::cuda

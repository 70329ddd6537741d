// Matrix products and row gathers for every format and type, in f32 with exact weights: the twin
// that the fast kernels are measured against, and what runs with f32 activations.
#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/linear.h"
#include "backend/cuda/weight_reader.cuh"

namespace mlxcel::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsAtOnce = 8;  // rows of x that share one reading of a weight

// One warp an output column: lane l sums columns l, l + 32, ... of up to kRowsAtOnce rows, then the
// lanes are added by halves. The order depends on the matrix alone.
template <class X, class Y>
__global__ void __launch_bounds__(kThreads)
    linear_kernel(FragmentLayout l, const uint8_t* data, const X* x, int64_t x_stride, Y* y,
                  int64_t y_stride, int64_t m, const float* bias) {
  begin_kernel();
  const int64_t out = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (out >= l.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t first = int64_t{blockIdx.y} * kRowsAtOnce;
  float sum[kRowsAtOnce] = {};
  for (int64_t c = lane; c < l.cols; c += 32) {
    const float w = weight_at(l, data, out, c);
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      if (first + i < m) sum[i] += to_float(x[(first + i) * x_stride + c]) * w;
    }
  }
#pragma unroll
  for (int i = 0; i < kRowsAtOnce; ++i) {
    for (int offset = 16; offset > 0; offset /= 2) {
      sum[i] += __shfl_xor_sync(0xFFFFFFFFU, sum[i], offset);
    }
    if (lane == 0 && first + i < m) {
      y[(first + i) * y_stride + out] =
          from_float<Y>(sum[i] + (bias != nullptr ? bias[out] : 0.0F));
    }
  }
}

template <class Y>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(FragmentLayout l, const uint8_t* data, const int32_t* ids, Y* out) {
  begin_kernel();
  const int64_t i = blockIdx.x, id = ids[i];
  const bool known = id >= 0 && id < l.rows;
  for (int64_t c = threadIdx.x; c < l.cols; c += kThreads) {
    out[i * l.cols + c] = from_float<Y>(known ? weight_at(l, data, id, c) : 0.0F);
  }
}

}  // namespace

void linear_any(const ops::LinearArgs& a) {
  const FragmentLayout l = make_fragment_layout(a.w.format, a.w.rows, a.w.cols);
  const auto* data = static_cast<const uint8_t*>(a.w.data);
  with_activation(a.x_type, [&](auto x_zero) {
    with_activation(a.y_type, [&](auto y_zero) {
      using X = decltype(x_zero);
      using Y = decltype(y_zero);
      // Blocks along y are few enough for the grid: 65,535 of 8 rows.
      for (int64_t begin = 0; begin < a.m; begin += 65535 * kRowsAtOnce) {
        const int64_t count = std::min<int64_t>(a.m - begin, 65535 * kRowsAtOnce);
        const dim3 grid(blocks_for(l.rows, kThreads / 32), blocks_for(count, kRowsAtOnce));
        launch(linear_kernel<X, Y>, grid, kThreads, 0, l, data,
               reinterpret_cast<const X*>(a.x) + begin * a.x_stride, a.x_stride,
               reinterpret_cast<Y*>(a.y) + begin * a.y_stride, a.y_stride, count, a.bias);
        MLXCEL_CUDA_LAUNCHED("linear");
      }
    });
  });
}

void gather(const ops::GatherArgs& a) {
  const FragmentLayout l = make_fragment_layout(a.w.format, a.w.rows, a.w.cols);
  with_activation(a.type, [&](auto zero) {
    using Y = decltype(zero);
    launch(gather_kernel<Y>, static_cast<unsigned>(a.count), kThreads, 0, l,
           static_cast<const uint8_t*>(a.w.data), a.ids, reinterpret_cast<Y*>(a.out));
    MLXCEL_CUDA_LAUNCHED("gather_rows");
  });
}

}  // namespace mlxcel::cuda

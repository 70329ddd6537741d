// Root-mean-square and layer norms: one block a row, sums in f32 in an order that the length of the
// row fixes.
#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.cuh"

namespace mlxcel::cuda {
namespace {

constexpr int kMaxThreads = 1024;

template <class T>
struct NormParams {
  Rows<T> x, delta;  // delta.data may be null
  const float* gain;
  const float* bias;
  T* sum;
  T* out;
  float eps, offset;
};

// Element i of a row that is still to be summed; stores the sum when there is one.
template <class T>
__device__ float value_at(const NormParams<T>& p, const T* x, const T* delta, T* sum, int64_t i) {
  if (delta == nullptr) return to_float(x[i]);
  const T s = from_float<T>(to_float(x[i]) + to_float(delta[i]));
  sum[i] = s;
  return to_float(s);
}

// Rows of whole 16-byte packs, at most kPacks a thread, are read once and kept in registers.
template <class T, int kPacks>
__global__ void __launch_bounds__(kMaxThreads) rms_norm_packed(NormParams<T> p) {
  begin_kernel();
  constexpr int kSize = Pack<T>::kSize;
  __shared__ float shared[33];
  const int64_t r = blockIdx.x, dim = p.x.dim;
  const auto* x = reinterpret_cast<const Pack<T>*>(p.x.row(r));
  const auto* delta =
      p.delta.data != nullptr ? reinterpret_cast<const Pack<T>*>(p.delta.row(r)) : nullptr;
  float v[kPacks][kSize];
  float squares = 0.0F;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int64_t at = threadIdx.x + int64_t{k} * blockDim.x;
    if (at * kSize >= dim) continue;
    Pack<T> a = x[at];
    if (delta != nullptr) {
      const Pack<T> b = delta[at];
#pragma unroll
      for (int i = 0; i < kSize; ++i) a.v[i] = from_float<T>(to_float(a.v[i]) + to_float(b.v[i]));
      reinterpret_cast<Pack<T>*>(p.sum + r * dim)[at] = a;
    }
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      v[k][i] = to_float(a.v[i]);
      squares += v[k][i] * v[k][i];
    }
  }
  const float factor = rsqrtf(block_sum(squares, shared) / static_cast<float>(dim) + p.eps);
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int64_t at = threadIdx.x + int64_t{k} * blockDim.x;
    if (at * kSize >= dim) continue;
    Pack<T> y;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      y.v[i] = from_float<T>(v[k][i] * factor * (p.gain[at * kSize + i] + p.offset));
    }
    reinterpret_cast<Pack<T>*>(p.out + r * dim)[at] = y;
  }
}

template <class T>
__global__ void rms_norm_any(NormParams<T> p) {
  begin_kernel();
  __shared__ float shared[33];
  const int64_t r = blockIdx.x, dim = p.x.dim;
  const T* x = p.x.row(r);
  const T* delta = p.delta.data != nullptr ? p.delta.row(r) : nullptr;
  T* sum = delta != nullptr ? p.sum + r * dim : nullptr;
  float squares = 0.0F;
  for (int64_t i = threadIdx.x; i < dim; i += blockDim.x) {
    const float v = value_at(p, x, delta, sum, i);
    squares += v * v;
  }
  const float factor = rsqrtf(block_sum(squares, shared) / static_cast<float>(dim) + p.eps);
  const T* source = sum != nullptr ? sum : x;
  for (int64_t i = threadIdx.x; i < dim; i += blockDim.x) {
    p.out[r * dim + i] = from_float<T>(to_float(source[i]) * factor * (p.gain[i] + p.offset));
  }
}

template <class T>
__global__ void layer_norm_any(NormParams<T> p) {
  begin_kernel();
  __shared__ float shared[33];
  const int64_t r = blockIdx.x, dim = p.x.dim;
  const T* x = p.x.row(r);
  float total = 0.0F;
  for (int64_t i = threadIdx.x; i < dim; i += blockDim.x) total += to_float(x[i]);
  const float mean = block_sum(total, shared) / static_cast<float>(dim);
  __syncthreads();
  float squares = 0.0F;
  for (int64_t i = threadIdx.x; i < dim; i += blockDim.x) {
    const float d = to_float(x[i]) - mean;
    squares += d * d;
  }
  const float factor = rsqrtf(block_sum(squares, shared) / static_cast<float>(dim) + p.eps);
  for (int64_t i = threadIdx.x; i < dim; i += blockDim.x) {
    float y = (to_float(x[i]) - mean) * factor;
    if (p.gain != nullptr) y *= p.gain[i];
    if (p.bias != nullptr) y += p.bias[i];
    p.out[r * dim + i] = from_float<T>(y);
  }
}

template <class T>
NormParams<T> params(const ops::NormArgs& a) {
  return {.x = rows_as<T>(a.x),
          .delta = rows_as<T>(a.delta),
          .gain = a.gain,
          .bias = a.bias,
          .sum = reinterpret_cast<T*>(a.sum),
          .out = reinterpret_cast<T*>(a.out),
          .eps = a.eps,
          .offset = a.offset};
}

int threads_for(int64_t items) {
  return static_cast<int>(
      std::min<int64_t>(kMaxThreads, std::max<int64_t>(32, (items + 31) / 32 * 32)));
}

}  // namespace

void rms_norm(const ops::NormArgs& a) {
  with_activation(a.x.type, [&](auto zero) {
    using T = decltype(zero);
    const NormParams<T> p = params<T>(a);
    const auto rows = static_cast<unsigned>(a.x.rows());
    const int64_t packs = a.x.dim / Pack<T>::kSize;
    const bool packed = p.x.aligned() && (p.delta.data == nullptr || p.delta.aligned());
    if (packed && packs <= kMaxThreads) {
      launch(rms_norm_packed<T, 1>, rows, threads_for(packs), 0, p);
    } else if (packed && packs <= 4 * kMaxThreads) {
      launch(rms_norm_packed<T, 4>, rows, threads_for((packs + 3) / 4), 0, p);
    } else {
      launch(rms_norm_any<T>, rows, threads_for(a.x.dim), 0, p);
    }
    MLXCEL_CUDA_LAUNCHED("rms_norm");
  });
}

void layer_norm(const ops::NormArgs& a) {
  with_activation(a.x.type, [&](auto zero) {
    using T = decltype(zero);
    const auto rows = static_cast<unsigned>(a.x.rows());
    launch(layer_norm_any<T>, rows, threads_for(a.x.dim), 0, params<T>(a));
    MLXCEL_CUDA_LAUNCHED("layer_norm");
  });
}

}  // namespace mlxcel::cuda

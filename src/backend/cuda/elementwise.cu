// Element-wise operations and copies of rows. Every element is computed in f32 and rounded once.
#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.cuh"

namespace mlxcel::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float silu(float x) { return x / (1.0F + __expf(-x)); }

struct AddOp {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct MulOp {
  __device__ float operator()(float a, float b) const { return a * b; }
};
struct SiluMulOp {
  __device__ float operator()(float a, float b) const { return silu(a) * b; }
};
struct ScaleOp {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};
struct SoftcapOp {
  float cap;
  __device__ float operator()(float x) const { return cap * tanhf(x / cap); }
};
struct ClampOp {
  float limit;
  __device__ float operator()(float x) const { return x != x ? x : fminf(fmaxf(x, -limit), limit); }
};
struct SigmoidOp {
  __device__ float operator()(float x) const { return 1.0F / (1.0F + expf(-x)); }
};
struct CopyOp {
  __device__ float operator()(float x) const { return x; }
};
struct ActivateOp {
  ops::Activation kind;
  __device__ float operator()(float x) const {
    switch (kind) {
      case ops::Activation::Silu:
        return silu(x);
      case ops::Activation::Gelu:
        return 0.5F * x * (1.0F + erff(x * 0.70710678F));
      case ops::Activation::GeluTanh:
        return 0.5F * x * (1.0F + tanhf(0.79788456F * (x + 0.044715F * x * x * x)));
      case ops::Activation::Relu:
        return x > 0.0F ? x : x == x ? 0.0F : x;
      case ops::Activation::Relu2:
        return x > 0.0F ? x * x : x == x ? 0.0F : x;
    }
    return 0.0F;
  }
};

// One thread takes one pack (N elements) of one row.
template <class T, int N, class Op>
__global__ void __launch_bounds__(kThreads) binary_kernel(Rows<T> a, Rows<T> b, T* out, Op op) {
  begin_kernel();
  const int64_t per_row = a.dim / N;
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= a.count * per_row) return;
  const int64_t r = at / per_row, i = at % per_row * N;
  if constexpr (N == 1) {
    out[r * a.dim + i] = from_float<T>(op(to_float(a.row(r)[i]), to_float(b.row(r)[i])));
  } else {
    const auto x = *reinterpret_cast<const Pack<T>*>(a.row(r) + i);
    const auto y = *reinterpret_cast<const Pack<T>*>(b.row(r) + i);
    Pack<T> z;
#pragma unroll
    for (int k = 0; k < N; ++k) z.v[k] = from_float<T>(op(to_float(x.v[k]), to_float(y.v[k])));
    *reinterpret_cast<Pack<T>*>(out + r * a.dim + i) = z;
  }
}

template <class T, int N, class Op>
__global__ void __launch_bounds__(kThreads) unary_kernel(Rows<T> x, T* out, Op op) {
  begin_kernel();
  const int64_t per_row = x.dim / N;
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= x.count * per_row) return;
  const int64_t r = at / per_row, i = at % per_row * N;
  if constexpr (N == 1) {
    out[r * x.dim + i] = from_float<T>(op(to_float(x.row(r)[i])));
  } else {
    Pack<T> z = *reinterpret_cast<const Pack<T>*>(x.row(r) + i);
#pragma unroll
    for (int k = 0; k < N; ++k) z.v[k] = from_float<T>(op(to_float(z.v[k])));
    *reinterpret_cast<Pack<T>*>(out + r * x.dim + i) = z;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    take_rows_kernel(Rows<T> x, const int32_t* ids, int64_t count, T* out) {
  begin_kernel();
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= count * x.dim) return;
  const int64_t i = at / x.dim, d = at % x.dim;
  const int64_t id = ids[i];
  out[at] = id >= 0 && id < x.count ? x.row(id)[d] : from_float<T>(0.0F);
}

template <class Op>
void binary(const ops::BinaryArgs& args, Op op) {
  with_activation(args.a.type, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kPack = Pack<T>::kSize;
    const auto a = rows_as<T>(args.a), b = rows_as<T>(args.b);
    T* out = reinterpret_cast<T*>(args.out);
    const int64_t items = a.count * a.dim;
    if (a.aligned() && b.aligned()) {
      launch(binary_kernel<T, kPack, Op>, blocks_for(items / kPack, kThreads), kThreads, 0, a, b,
             out, op);
    } else {
      launch(binary_kernel<T, 1, Op>, blocks_for(items, kThreads), kThreads, 0, a, b, out, op);
    }
    MLXCEL_CUDA_LAUNCHED("binary");
  });
}

template <class Op>
void unary(const ops::UnaryArgs& args, Op op) {
  with_activation(args.x.type, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kPack = Pack<T>::kSize;
    const auto x = rows_as<T>(args.x);
    T* out = reinterpret_cast<T*>(args.out);
    const int64_t items = x.count * x.dim;
    if (x.aligned()) {
      launch(unary_kernel<T, kPack, Op>, blocks_for(items / kPack, kThreads), kThreads, 0, x, out,
             op);
    } else {
      launch(unary_kernel<T, 1, Op>, blocks_for(items, kThreads), kThreads, 0, x, out, op);
    }
    MLXCEL_CUDA_LAUNCHED("unary");
  });
}

}  // namespace

void add(const ops::BinaryArgs& a) { binary(a, AddOp{}); }
void mul(const ops::BinaryArgs& a) { binary(a, MulOp{}); }
void silu_mul(const ops::BinaryArgs& a) { binary(a, SiluMulOp{}); }
void scale(const ops::UnaryArgs& a) { unary(a, ScaleOp{a.parameter}); }
void softcap(const ops::UnaryArgs& a) { unary(a, SoftcapOp{a.parameter}); }
void copy_rows(const ops::UnaryArgs& a) { unary(a, CopyOp{}); }
void clamp(const ops::UnaryArgs& a) { unary(a, ClampOp{a.parameter}); }
void sigmoid(const ops::UnaryArgs& a) { unary(a, SigmoidOp{}); }
void activate(const ops::UnaryArgs& a) { unary(a, ActivateOp{a.kind}); }

void take_rows(const ops::TakeRowsArgs& a) {
  with_activation(a.x.type, [&](auto zero) {
    using T = decltype(zero);
    launch(take_rows_kernel<T>, blocks_for(a.count * a.x.dim, kThreads), kThreads, 0,
           rows_as<T>(a.x), a.ids, a.count, reinterpret_cast<T*>(a.out));
    MLXCEL_CUDA_LAUNCHED("take_rows");
  });
}

}  // namespace mlxcel::cuda

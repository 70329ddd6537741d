// Rotary embedding in place, and writing keys and values to the paged cache.
#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.cuh"

namespace mlxcel::cuda {
namespace {

constexpr int kThreads = 128;

// Angles reach 10^5 and more: the sine of the f32 angle needs the exact range reduction of sincosf.
template <class T>
__global__ void __launch_bounds__(kThreads) rope_kernel(ops::RopeArgs a) {
  begin_kernel();
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= a.tokens * a.half) return;
  const int64_t t = at / a.half, i = at % a.half;
  const int32_t position = a.positions[t];
  const int64_t wanted = int64_t{position} - a.first_position;
  const int64_t freq_row = wanted < 0 ? 0 : wanted < a.freq_rows ? wanted : a.freq_rows - 1;
  const float angle = static_cast<float>(position) * a.inv_freq[freq_row * a.half + i];
  float s, c;
  sincosf(angle, &s, &c);
  s *= a.attention_factor;
  c *= a.attention_factor;
  const int64_t first = a.interleaved ? 2 * i : i;
  const int64_t second = a.interleaved ? 2 * i + 1 : i + a.half;
  T* x = reinterpret_cast<T*>(a.x) + t * a.x_stride;
  const int64_t step = (a.heads + gridDim.y - 1) / gridDim.y;
  const int64_t end = min(a.heads, static_cast<int64_t>(blockIdx.y + 1) * step);
  for (int64_t h = blockIdx.y * step; h < end; ++h) {
    T* head = x + h * a.head_dim;
    const float p = to_float(head[first]), q = to_float(head[second]);
    head[first] = from_float<T>(p * c - q * s);
    head[second] = from_float<T>(q * c + p * s);
  }
}

// Keys and values in one launch: blockIdx.y says which.
template <class T>
struct AppendSide {
  const T* x;
  void* cache;
  int64_t stride;
  int32_t dim;
};

template <class T, class C>
__global__ void __launch_bounds__(kThreads)
    append_kernel(AppendSide<T> k, AppendSide<T> v, ops::AttentionPlan plan, int32_t heads,
                  int32_t block_tokens) {
  begin_kernel();
  const AppendSide<T>& side = blockIdx.y == 0 ? k : v;
  const int64_t row = blockIdx.x;
  const int32_t slot = plan.row_slot[row];
  if (slot < 0) return;
  const int32_t block = slot / block_tokens, place = slot % block_tokens;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < heads * side.dim; i += kThreads) {
    const int32_t h = i / side.dim, d = i % side.dim;
    const int64_t to = ((int64_t{block} * heads + h) * block_tokens + place) * side.dim + d;
    static_cast<C*>(side.cache)[to] = from_float<C>(to_float(side.x[row * side.stride + i]));
  }
}

}  // namespace

void rope(const ops::RopeArgs& a) {
  with_activation(a.type, [&](auto zero) {
    using T = decltype(zero);
    const int64_t items = a.tokens * a.half;
    // Heads share the sine; few tokens spread them over blocks instead.
    const auto split = static_cast<unsigned>(items < 16384 ? std::min<int64_t>(a.heads, 8) : 1);
    launch(rope_kernel<T>, dim3(blocks_for(items, kThreads), split), kThreads, 0, a);
    MLXCEL_CUDA_LAUNCHED("rope");
  });
}

void kv_append(const ops::KvAppendArgs& a) {
  with_activation(a.type, [&](auto zero) {
    using T = decltype(zero);
    const AppendSide<T> k{reinterpret_cast<const T*>(a.k), a.kv.k, a.k_stride, a.kv.k_dim};
    const AppendSide<T> v{reinterpret_cast<const T*>(a.v), a.kv.v, a.v_stride, a.kv.v_dim};
    const dim3 grid(static_cast<unsigned>(a.kv.plan->num_rows), a.kv.v != nullptr ? 2 : 1);
    const auto run = [&](auto cache_zero) {
      using C = decltype(cache_zero);
      launch(append_kernel<T, C>, grid, kThreads, 0, k, v, *a.kv.plan, a.kv.kv_heads,
             a.kv.block_tokens);
    };
    if (a.kv.type == DType::F32) run(float{});
    if (a.kv.type == DType::F16) run(__half{});
    if (a.kv.type == DType::BF16) run(__nv_bfloat16{});
    MLXCEL_CUDA_LAUNCHED("kv_append");
  });
}

}  // namespace mlxcel::cuda

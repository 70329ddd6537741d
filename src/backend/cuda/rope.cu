// Rotary embedding in place, and writing keys and values to the paged cache.
#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.cuh"

namespace mlxcel::cuda {
namespace {

constexpr int kThreads = 128;

// Angles reach 10^5 and more: the sine of the f32 angle needs the exact range reduction of sincosf.
__device__ void angle_of(const ops::RopeArgs& a, int32_t position, int64_t i, float& s, float& c) {
  const int64_t wanted = int64_t{position} - a.first_position;
  const int64_t freq_row = wanted < 0 ? 0 : wanted < a.freq_rows ? wanted : a.freq_rows - 1;
  sincosf(static_cast<float>(position) * a.inv_freq[freq_row * a.half + i], &s, &c);
  s *= a.attention_factor;
  c *= a.attention_factor;
}

// Spelled out, so that every kernel rounds alike.
__device__ float2 rotated(float p, float q, float s, float c) {
  return make_float2(fmaf(p, c, -(q * s)), fmaf(q, c, p * s));
}

template <class T>
__global__ void __launch_bounds__(kThreads) rope_kernel(ops::RopeArgs a) {
  begin_kernel();
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= a.tokens * a.half) return;
  const int64_t t = at / a.half, i = at % a.half;
  const int32_t position = a.positions[t];
  float s, c;
  angle_of(a, position, i, s, c);
  const int64_t first = a.interleaved ? 2 * i : i;
  const int64_t second = a.interleaved ? 2 * i + 1 : i + a.half;
  T* x = reinterpret_cast<T*>(a.x) + t * a.x_stride;
  const int64_t step = (a.heads + gridDim.y - 1) / gridDim.y;
  const int64_t end = min(a.heads, static_cast<int64_t>(blockIdx.y + 1) * step);
  for (int64_t h = blockIdx.y * step; h < end; ++h) {
    T* head = x + h * a.head_dim;
    const float p = to_float(head[first]), q = to_float(head[second]);
    const float2 r = rotated(p, q, s, c);
    head[first] = from_float<T>(r.x);
    head[second] = from_float<T>(r.y);
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

// One thread a pair of elements of a query, key or value head of one row. Rotated keys are rounded
// to the activation type on their way to the cache, as in two launches.
template <class T, class C>
__global__ void __launch_bounds__(kThreads)
    rope_append_kernel(ops::RopeAppendArgs a, const int32_t* row_slot) {
  begin_kernel();
  const int64_t row = blockIdx.y;
  int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const ops::RopeArgs& rope = a.q;
  const int64_t k_pairs = a.append.kv.k_dim / 2, v_pairs = (a.append.kv.v_dim + 1) / 2;
  const int64_t heads = a.append.kv.kv_heads, block_tokens = a.append.kv.block_tokens;
  const int32_t slot = row_slot[row];
  const int64_t queries = rope.heads * rope.half, keys = heads * k_pairs;
  const auto place = [&](int64_t h, int64_t dim) {
    return ((slot / block_tokens * heads + h) * block_tokens + slot % block_tokens) * dim;
  };
  const auto pair_of = [&](int64_t at, int64_t& first, int64_t& second) {
    first = rope.interleaved ? 2 * at : at;
    second = rope.interleaved ? 2 * at + 1 : at + rope.half;
  };
  int64_t first = 0, second = 0;
  if (i < queries) {
    float s, c;
    angle_of(rope, rope.positions[row], i % rope.half, s, c);
    pair_of(i % rope.half, first, second);
    T* head = reinterpret_cast<T*>(rope.x) + row * rope.x_stride + i / rope.half * rope.head_dim;
    const float2 r = rotated(to_float(head[first]), to_float(head[second]), s, c);
    head[first] = from_float<T>(r.x);
    head[second] = from_float<T>(r.y);
    return;
  }
  if (slot < 0) return;
  i -= queries;
  if (i < keys) {
    const int64_t h = i / k_pairs, at = i % k_pairs;
    const T* head =
        reinterpret_cast<const T*>(a.append.k) + row * a.append.k_stride + h * a.append.kv.k_dim;
    C* out = static_cast<C*>(a.append.kv.k) + place(h, a.append.kv.k_dim);
    if (at < rope.half) {
      float s, c;
      angle_of(rope, rope.positions[row], at, s, c);
      pair_of(at, first, second);
      const float2 r = rotated(to_float(head[first]), to_float(head[second]), s, c);
      out[first] = from_float<C>(to_float(from_float<T>(r.x)));
      out[second] = from_float<C>(to_float(from_float<T>(r.y)));
    } else {  // beyond the rotated part
      out[2 * at] = from_float<C>(to_float(head[2 * at]));
      out[2 * at + 1] = from_float<C>(to_float(head[2 * at + 1]));
    }
    return;
  }
  i -= keys;
  if (i >= heads * v_pairs) return;
  const int64_t h = i / v_pairs, at = i % v_pairs * 2;
  const T* head =
      reinterpret_cast<const T*>(a.append.v) + row * a.append.v_stride + h * a.append.kv.v_dim;
  C* out = static_cast<C*>(a.append.kv.v) + place(h, a.append.kv.v_dim);
  out[at] = from_float<C>(to_float(head[at]));
  if (at + 1 < a.append.kv.v_dim) out[at + 1] = from_float<C>(to_float(head[at + 1]));
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

namespace {

bool rope_append_supports(const ops::RopeAppendArgs& a) {
  return a.q.x != nullptr && a.k.x != nullptr && a.append.kv.k_dim % 2 == 0 &&
         a.q.head_dim == a.k.head_dim && a.q.tokens <= 65535;
}

}  // namespace

void rope_append(const ops::RopeAppendArgs& a) {
  if (!rope_append_supports(a)) {
    if (a.q.x != nullptr) rope(a.q);
    if (a.k.x != nullptr) rope(a.k);
    return kv_append(a.append);
  }
  with_activation(a.q.type, [&](auto zero) {
    using T = decltype(zero);
    const ops::PagedKv& kv = a.append.kv;
    const int64_t items = a.q.heads * a.q.half + int64_t{kv.kv_heads} * (kv.k_dim / 2) +
                          int64_t{kv.kv_heads} * ((kv.v_dim + 1) / 2);
    const dim3 grid(blocks_for(items, kThreads), static_cast<unsigned>(a.q.tokens));
    const int32_t* slots = kv.plan->row_slot;
    if (kv.type == DType::F32) launch(rope_append_kernel<T, float>, grid, kThreads, 0, a, slots);
    if (kv.type == DType::F16) launch(rope_append_kernel<T, __half>, grid, kThreads, 0, a, slots);
    if (kv.type == DType::BF16) {
      launch(rope_append_kernel<T, __nv_bfloat16>, grid, kThreads, 0, a, slots);
    }
    MLXCEL_CUDA_LAUNCHED("rope_append");
  });
}

}  // namespace mlxcel::cuda

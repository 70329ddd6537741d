// Paged attention, the version for any shape and type: one block a row and head. Keys are taken in
// pieces of kPiece positions from position 0; a piece has its own maximum, sum and values, which
// are then merged into those before it. What a row gets depends on nothing but its own positions.
#include "backend/cuda/attention.h"

#include <cfloat>

#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.cuh"

namespace mlxcel::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kPiece = kAttentionPiece;
static_assert(kPiece == kThreads, "one key a thread");

__device__ float block_max(float v, float* shared) {
  for (int offset = 16; offset > 0; offset /= 2) v = fmaxf(v, __shfl_xor_sync(~0U, v, offset));
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = fmaxf(fmaxf(shared[0], shared[1]), fmaxf(shared[2], shared[3]));
  __syncthreads();
  return v;
}

template <class C>
__device__ float dot(const float* q, const C* k, int dim) {
  float sum = 0.0F;
  for (int d = 0; d < dim; ++d) sum += q[d] * to_float(k[d]);
  return sum;
}

// Shared memory: q [k_dim], the piece's weights [kPiece], the merged values [v_dim], reductions.
template <class T, class C>
__global__ void __launch_bounds__(kThreads) attention_kernel(AttentionParams p) {
  begin_kernel();
  extern __shared__ float memory[];
  float* q = memory;
  float* weights = q + p.k_dim;
  float* merged = weights + kPiece;
  float* reduce = merged + p.v_dim;
  const int tid = static_cast<int>(threadIdx.x);
  const int64_t row = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y), kv_head = head / (p.heads / p.kv_heads);
  T* out = static_cast<T*>(p.out) + (row * p.heads + head) * p.v_dim;
  const int segment = p.plan.row_segment[row], length = p.plan.row_length[row];
  if (segment < 0) {
    for (int d = tid; d < p.v_dim; d += kThreads) out[d] = from_float<T>(0.0F);
    return;
  }
  const int32_t* table = p.plan.tables + p.plan.table_begin[segment];
  const T* q_row = static_cast<const T*>(p.q) + row * p.q_stride + int64_t{head} * p.k_dim;
  for (int d = tid; d < p.k_dim; d += kThreads) q[d] = to_float(q_row[d]);
  for (int d = tid; d < p.v_dim; d += kThreads) merged[d] = 0.0F;
  __syncthreads();
  const int first = p.window > 0 ? max(0, length - p.window) : 0;
  float best = p.sinks != nullptr ? p.sinks[head] : -FLT_MAX;
  float total = p.sinks != nullptr ? 1.0F : 0.0F;
  for (int begin = first / kPiece * kPiece; begin < length; begin += kPiece) {
    const int position = begin + tid;
    const bool visible = position >= first && position < length;
    float score = -FLT_MAX;
    if (visible) {
      const int64_t slot =
          (int64_t{table[position / p.block_tokens]} * p.kv_heads + kv_head) * p.block_tokens +
          position % p.block_tokens;
      score = dot(q, static_cast<const C*>(p.k) + slot * p.k_dim, p.k_dim) * p.scale;
      if (p.softcap > 0.0F) score = p.softcap * tanhf(score / p.softcap);
    }
    const float piece_best = block_max(score, reduce);
    const float weight = visible ? expf(score - piece_best) : 0.0F;
    weights[tid] = weight;
    const float piece_total = block_sum(weight, reduce);
    const float next = fmaxf(best, piece_best);
    const float keep = expf(best - next), take = expf(piece_best - next);
    const int piece_end = min(length - begin, kPiece);
    for (int d = tid; d < p.v_dim; d += kThreads) {
      float sum = 0.0F;
      for (int i = max(first - begin, 0); i < piece_end; ++i) {
        const int at = begin + i;
        const int64_t slot =
            (int64_t{table[at / p.block_tokens]} * p.kv_heads + kv_head) * p.block_tokens +
            at % p.block_tokens;
        sum += weights[i] * to_float(static_cast<const C*>(p.v)[slot * p.v_stride + d]);
      }
      merged[d] = merged[d] * keep + sum * take;
    }
    total = total * keep + piece_total * take;
    best = next;
    __syncthreads();
  }
  for (int d = tid; d < p.v_dim; d += kThreads) out[d] = from_float<T>(merged[d] / total);
}

}  // namespace

void attention_any(const AttentionParams& p, DType type, DType cache_type) {
  const size_t shared = sizeof(float) * static_cast<size_t>(p.k_dim + p.v_dim + kPiece + 34);
  const dim3 grid(static_cast<unsigned>(p.plan.num_rows), static_cast<unsigned>(p.heads));
  with_activation(type, [&](auto zero) {
    using T = decltype(zero);
    if (cache_type == DType::F32) {
      launch(attention_kernel<T, float>, grid, kThreads, shared, p);
    } else if (cache_type == DType::F16) {
      launch(attention_kernel<T, __half>, grid, kThreads, shared, p);
    } else {
      launch(attention_kernel<T, __nv_bfloat16>, grid, kThreads, shared, p);
    }
  });
  MLXCEL_CUDA_LAUNCHED("attention");
}

void attention(const ops::AttentionArgs& a) {
  const AttentionParams p{.q = a.q,
                          .k = a.kv.k,
                          .v = a.kv.v != nullptr ? a.kv.v : a.kv.k,
                          .out = a.out,
                          .q_stride = a.q_stride,
                          .heads = a.heads,
                          .kv_heads = a.kv.kv_heads,
                          .k_dim = a.kv.k_dim,
                          .v_dim = a.kv.v_dim,
                          .v_stride = a.kv.v != nullptr ? a.kv.v_dim : a.kv.k_dim,
                          .block_tokens = a.kv.block_tokens,
                          .window = a.window,
                          .scale = a.scale,
                          .softcap = a.softcap,
                          .sinks = a.sinks,
                          .plan = *a.kv.plan};
  // By shape and type alone, so that neither batch nor chunk can change a bit.
  if (attention_mma_supports(p, a.type, a.kv.type)) {
    attention_mma(p, a.kv.type);
  } else {
    attention_any(p, a.type, a.kv.type);
  }
}

}  // namespace mlxcel::cuda

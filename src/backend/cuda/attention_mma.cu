// The two launches of tensor-core attention: rows of decoding sequences, whose pieces are spread
// over the device and merged by a second kernel, and tiles of prompts, which one block takes whole.
#include "backend/cuda/attention_mma.cuh"

#include "backend/cuda/launch.cuh"

namespace mlxcel::cuda {
namespace {

constexpr int kPromptWarps = 4, kPromptRows = kPromptWarps * 16, kPromptStages = 3;
constexpr int kDecodeRows = 16;

// What a piece leaves for the last block of its rows: [segment][kv head][piece][row].
struct Pieces {
  float* values;     // [.., kDim]
  float2* sums;      // best, total
  int* done;         // [segment][kv head] blocks that have ended; zero before and after
  int pieces, rows;  // of each segment and head
  __device__ int64_t at(int segment, int kv_heads, int kv_head, int piece, int row) const {
    return ((int64_t{segment} * kv_heads + kv_head) * pieces + piece) * rows + row;
  }
};

__device__ bool decodes(const AttentionParams& p, int segment) {
  return p.plan.segment_q_len[segment] * (p.heads / p.kv_heads) <= kDecodeRows;
}

// The pieces of all rows of a segment and head, merged in order: one warp a row, some elements a
// lane.
template <int kDim>
__device__ void merge_pieces(const AttentionParams& p, const Pieces& in, const RowMap& map,
                             int segment, int kv_head, int length0) {
  constexpr int kEach = kDim / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int r = warp; map.valid(r); r += kTilesInPiece) {
    const int head = kv_head * map.group + map.head(r), length = length0 + map.token(r) + 1;
    const int first = p.window > 0 ? max(0, length - p.window) / kAttentionPiece : 0;
    const int last = (length - 1) / kAttentionPiece;
    float best = p.sinks != nullptr ? p.sinks[head] * kLog2E : -INFINITY;
    float total = p.sinks != nullptr ? 1.0F : 0.0F, o[kEach] = {};
    int64_t at = in.at(segment, p.kv_heads, kv_head, first, r);
#pragma unroll 4
    for (int i = first; i <= last; ++i, at += in.rows) {
      const float2 sums = __ldcg(in.sums + at);
      float v[kEach];
      if constexpr (kEach == 4) {
        *reinterpret_cast<float4*>(v) =
            __ldcg(reinterpret_cast<const float4*>(in.values + at * kDim + lane * kEach));
      } else {
        *reinterpret_cast<float2*>(v) =
            __ldcg(reinterpret_cast<const float2*>(in.values + at * kDim + lane * kEach));
      }
      const MergeWeights w = merge_weights(best, sums.x);
      total = merge(total, sums.y, w);
#pragma unroll
      for (int e = 0; e < kEach; ++e) o[e] = merge(o[e], v[e], w);
    }
    auto* out = static_cast<__nv_bfloat16*>(p.out) +
                ((int64_t{p.plan.segment_row[segment]} + map.token(r)) * p.heads + head) * kDim +
                lane * kEach;
#pragma unroll
    for (int e = 0; e < kEach; e += 2) {
      *reinterpret_cast<__nv_bfloat162*>(out + e) =
          __floats2bfloat162_rn(o[e] / total, o[e + 1] / total);
    }
  }
}

// One block: one piece of one key/value head of one segment, a tile of keys a warp. Tiles enter the
// piece in order, as add_tile() adds them. The last block of the head to end merges its pieces.
template <class C, int kDim>
__global__ void __launch_bounds__(kTilesInPiece * 32) decode_kernel(AttentionParams p, Pieces out) {
  begin_kernel();
  extern __shared__ __align__(128) uint8_t memory[];
  __shared__ float tile_best[kTilesInPiece][kDecodeRows], tile_keep[kTilesInPiece][kDecodeRows],
      tile_total[kTilesInPiece][kDecodeRows];
  __shared__ bool is_last;
  const int tid = static_cast<int>(threadIdx.x), warp = tid / 32, lane = tid % 32;
  const int piece = static_cast<int>(blockIdx.x), kv_head = static_cast<int>(blockIdx.y);
  const int segment = static_cast<int>(blockIdx.z);
  const int kv_len = p.plan.segment_kv_len[segment], q_len = p.plan.segment_q_len[segment];
  const int begin = piece * kAttentionPiece;
  if (q_len == 0 || begin >= kv_len || !decodes(p, segment)) return;
  const int oldest = p.window > 0 ? max(0, kv_len - q_len + 1 - p.window) : 0;
  const int first_piece = oldest / kAttentionPiece;
  if (piece < first_piece) return;
  const int32_t* table = p.plan.tables + p.plan.table_begin[segment];
  constexpr uint32_t kTile = kKeyTileBytes<kDim>;
  uint8_t* mine = memory + 2 * warp * kTile;
  const uint32_t keys = shared_address(mine);
  const int tile = piece * kTilesInPiece + warp;
  copy_key_tile<kDim, 32>(p, static_cast<const uint16_t*>(p.k), table, kv_head, tile, kv_len, keys);
  commit_copies();
  copy_key_tile<kDim, 32>(p, static_cast<const uint16_t*>(p.v), table, kv_head, tile, kv_len,
                          keys + kTile);
  commit_copies();
  const RowMap map{p.heads / p.kv_heads, q_len};
  uint32_t q[kDim / 16][4];
  load_queries<C, kDim>(p, map, p.plan.segment_row[segment], kv_head, 0, lane, q);
  int length[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = lane / 4 + 8 * h;
    length[h] = map.valid(r) ? kv_len - q_len + map.token(r) + 1 : 0;
  }
  wait_copies<1>();
  __syncwarp();
  float s[kKeyTile / 8][4], best[2], total[2];
  score_tile<C, kDim>(p, q, length, tile * kKeyTile, lane, keys, s, best);
  if (lane % 4 == 0) {
    tile_best[warp][lane / 4] = best[0];
    tile_best[warp][lane / 4 + 8] = best[1];
  }
  __syncthreads();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float before = -INFINITY;
    for (int t = 0; t < warp; ++t) before = fmaxf(before, tile_best[t][lane / 4 + 8 * h]);
    best[h] = fmaxf(best[h], before);
    if (lane % 4 == 0) tile_keep[warp][lane / 4 + 8 * h] = keep_of(before, best[h]);
  }
  weigh_tile(s, best, total);
  if (lane % 4 == 0) {
    tile_total[warp][lane / 4] = total[0];
    tile_total[warp][lane / 4 + 8] = total[1];
  }
  wait_copies<0>();
  __syncwarp();
  // The sums of the tile's values take the place of its keys.
  auto* values = reinterpret_cast<float*>(mine);
  value_tile<C, kDim>(s, lane, keys + kTile, [&](int n, const float(&sums)[2][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = lane / 4 + i / 2 * 8, d = n * 16 + i % 2 * 8 + lane % 4 * 2;
      if (!map.valid(r)) continue;
      *reinterpret_cast<float2*>(values + r * kDim + d) =
          make_float2(sums[i % 2][i / 2 * 2], sums[i % 2][i / 2 * 2 + 1]);
    }
  });
  __syncthreads();
  const int rows = map.group * map.tokens;
  for (int i = tid; i < rows * kDim; i += kTilesInPiece * 32) {
    const int r = i / kDim;
    float o = 0.0F;
#pragma unroll
    for (int t = 0; t < kTilesInPiece; ++t) {
      const auto* part = reinterpret_cast<const float*>(memory + 2 * t * kTile);
      o = fmaf(o, tile_keep[t][r], part[i]);
    }
    out.values[out.at(segment, p.kv_heads, kv_head, piece, r) * kDim + i % kDim] = o;
  }
  if (tid < rows) {
    float sum = 0.0F, most = -INFINITY;
    for (int t = 0; t < kTilesInPiece; ++t) {
      sum = fmaf(sum, tile_keep[t][tid], tile_total[t][tid]);
      most = fmaxf(most, tile_best[t][tid]);
    }
    out.sums[out.at(segment, p.kv_heads, kv_head, piece, tid)] = make_float2(most, sum);
  }
  __threadfence();
  __syncthreads();
  if (tid == 0) {
    int* done = out.done + segment * p.kv_heads + kv_head;
    const int blocks = (kv_len - 1) / kAttentionPiece - first_piece + 1;
    is_last = atomicAdd(done, 1) == blocks - 1;
    if (is_last) *done = 0;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  merge_pieces<kDim>(p, out, map, segment, kv_head, kv_len - q_len);
}

// Rows of no segment.
__global__ void __launch_bounds__(128) zero_kernel(AttentionParams p) {
  begin_kernel();
  const int64_t row = blockIdx.x, size = int64_t{p.heads} * p.v_dim;
  if (p.plan.row_segment[row] >= 0) return;
  auto* out = static_cast<__nv_bfloat16*>(p.out) + row * size;
  for (int64_t i = threadIdx.x; i < size; i += 128) out[i] = __float2bfloat16_rn(0.0F);
}

// One block: 64 rows (tokens and heads of one group) of a segment, all their pieces.
template <class C, int kDim>
__global__ void __launch_bounds__(kPromptWarps * 32)
    prompt_kernel(AttentionParams p, int tokens_each, int parts) {
  begin_kernel();
  extern __shared__ __align__(128) uint8_t memory[];
  constexpr int kThreads = kPromptWarps * 32;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  // The last tiles see the most keys: they go first.
  const int work = static_cast<int>(gridDim.x - 1 - blockIdx.x);
  const int segment = p.plan.tiles[2 * (work / parts)];
  const int first = p.plan.tiles[2 * (work / parts) + 1] + work % parts * tokens_each;
  const int q_len = p.plan.segment_q_len[segment], kv_len = p.plan.segment_kv_len[segment];
  const int tile_end = min(p.plan.tiles[2 * (work / parts) + 1] + 64, q_len);
  if (first >= tile_end || decodes(p, segment)) return;
  const int kv_head = static_cast<int>(blockIdx.y);
  const RowMap map{p.heads / p.kv_heads, min(tokens_each, tile_end - first)};
  const int32_t* table = p.plan.tables + p.plan.table_begin[segment];
  const int64_t row = p.plan.segment_row[segment] + first;
  const int before = kv_len - q_len + first;  // positions before the first token
  const int end = before + map.tokens;        // seen by the last one
  const int oldest = p.window > 0 ? max(0, before + 1 - p.window) : 0;
  const int begin_tile = oldest / kAttentionPiece * kTilesInPiece;
  const int end_tile = (end + kKeyTile - 1) / kKeyTile;
  const uint32_t stages = shared_address(memory);
  constexpr uint32_t kTile = kKeyTileBytes<kDim>;
  const auto copy = [&](int tile) {
    if (tile < end_tile) {
      const uint32_t to = stages + static_cast<uint32_t>(tile % kPromptStages * 2) * kTile;
      copy_key_tile<kDim, kThreads>(p, static_cast<const uint16_t*>(p.k), table, kv_head, tile,
                                    kv_len, to);
      copy_key_tile<kDim, kThreads>(p, static_cast<const uint16_t*>(p.v), table, kv_head, tile,
                                    kv_len, to + kTile);
    }
    commit_copies();
  };
#pragma unroll
  for (int t = 0; t < kPromptStages - 1; ++t) copy(begin_tile + t);
  uint32_t q[kDim / 16][4];
  load_queries<C, kDim>(p, map, row, kv_head, warp * 16, lane, q);
  int length[2];
  Partial<kDim> merged, piece;
  merged.clear();
  piece.clear();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = warp * 16 + lane / 4 + 8 * h;
    length[h] = map.valid(r) ? before + map.token(r) + 1 : end;  // goes nowhere
    if (p.sinks != nullptr && map.valid(r)) {
      merged.best[h] = p.sinks[kv_head * map.group + map.head(r)] * kLog2E;
      merged.total[h] = 1.0F;
    }
  }
#pragma unroll 1
  for (int tile = begin_tile; tile < end_tile; ++tile) {
    wait_copies<kPromptStages - 2>();
    __syncthreads();
    copy(tile + kPromptStages - 1);
    const uint32_t keys = stages + static_cast<uint32_t>(tile % kPromptStages * 2) * kTile;
    add_tile<C, kDim>(p, q, length, tile * kKeyTile, lane, keys, keys + kTile, piece);
    if (tile % kTilesInPiece != kTilesInPiece - 1 && tile + 1 < end_tile) continue;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const MergeWeights w = merge_weights(merged.best[h], piece.best[h]);
      merged.total[h] = merge(merged.total[h], piece.total[h], w);
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        merged.o[n][2 * h] = merge(merged.o[n][2 * h], piece.o[n][2 * h], w);
        merged.o[n][2 * h + 1] = merge(merged.o[n][2 * h + 1], piece.o[n][2 * h + 1], w);
      }
    }
    piece.clear();
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = warp * 16 + lane / 4 + 8 * h;
    if (!map.valid(r)) continue;
    auto* out = static_cast<__nv_bfloat16*>(p.out) +
                ((row + map.token(r)) * p.heads + kv_head * map.group + map.head(r)) * kDim;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      *reinterpret_cast<__nv_bfloat162*>(out + n * 8 + lane % 4 * 2) = __floats2bfloat162_rn(
          merged.o[n][2 * h] / merged.total[h], merged.o[n][2 * h + 1] / merged.total[h]);
    }
  }
}

template <class Kernel>
void allow_shared(Kernel* kernel, size_t bytes) {
  MLXCEL_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(bytes)));
}

template <class C, int kDim>
void run_decode(const AttentionParams& p) {
  constexpr size_t kShared = 2 * kTilesInPiece * kKeyTileBytes<kDim>;
  static const bool prepared = (allow_shared(decode_kernel<C, kDim>, kShared), true);
  (void)prepared;
  Pieces pieces{};
  pieces.pieces = (p.plan.max_kv_len + kAttentionPiece - 1) / kAttentionPiece;
  pieces.rows = std::min(kDecodeRows, p.heads / p.kv_heads * std::max(1, p.plan.max_q_len));
  const int64_t heads = int64_t{p.plan.num_segments} * p.kv_heads;
  const int64_t count = heads * pieces.pieces * pieces.rows;
  const Scratch values(count * kDim * 4), sums(count * 8);
  pieces.values = values.as<float>();
  pieces.sums = sums.as<float2>();
  pieces.done = zeroed_counters(heads);
  const dim3 grid(static_cast<unsigned>(pieces.pieces), static_cast<unsigned>(p.kv_heads),
                  static_cast<unsigned>(p.plan.num_segments));
  launch(decode_kernel<C, kDim>, grid, kTilesInPiece * 32, kShared, p, pieces);
  MLXCEL_CUDA_LAUNCHED("attention of decoding rows");
}

template <class C, int kDim>
void run_prompt(const AttentionParams& p) {
  constexpr size_t kShared = 2 * kPromptStages * kKeyTileBytes<kDim>;
  static const bool prepared = (allow_shared(prompt_kernel<C, kDim>, kShared), true);
  (void)prepared;
  const int tokens_each = kPromptRows / (p.heads / p.kv_heads);
  const int parts = (64 + tokens_each - 1) / tokens_each;
  const dim3 grid(static_cast<unsigned>(p.plan.num_tiles * parts),
                  static_cast<unsigned>(p.kv_heads));
  launch(prompt_kernel<C, kDim>, grid, kPromptWarps * 32, kShared, p, tokens_each, parts);
  MLXCEL_CUDA_LAUNCHED("attention of prompts");
}

template <class C, int kDim>
void run(const AttentionParams& p) {
  if (p.plan.has_gaps) {
    launch(zero_kernel, static_cast<unsigned>(p.plan.num_rows), 128, 0, p);
    MLXCEL_CUDA_LAUNCHED("rows without a segment");
  }
  if (p.plan.num_segments > 0) run_decode<C, kDim>(p);
  if (p.plan.num_tiles > 0) run_prompt<C, kDim>(p);
}

}  // namespace

bool attention_mma_supports(const AttentionParams& p, DType type, DType cache_type) {
  return type == DType::BF16 && cache_type != DType::F32 && p.k != p.v && p.k_dim == p.v_dim &&
         (p.k_dim == 64 || p.k_dim == 128) && p.heads / p.kv_heads <= kDecodeRows &&
         p.block_tokens % kKeyTile == 0 && p.q_stride % 2 == 0 &&
         reinterpret_cast<uintptr_t>(p.q) % 4 == 0;
}

void attention_mma(const AttentionParams& p, DType cache_type) {
  if (cache_type == DType::F16) {
    p.k_dim == 64 ? run<__half, 64>(p) : run<__half, 128>(p);
  } else {
    p.k_dim == 64 ? run<__nv_bfloat16, 64>(p) : run<__nv_bfloat16, 128>(p);
  }
}

}  // namespace mlxcel::cuda

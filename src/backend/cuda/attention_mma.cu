// The two launches of tensor-core attention: rows of decoding sequences, whose pieces are spread
// over the device and merged by a second kernel, and tiles of prompts, which one block takes whole.
#include "backend/cuda/attention_mma.cuh"

#include "backend/cuda/launch.cuh"

namespace mlxcel::cuda {
namespace {

constexpr int kPromptWarps = 4, kPromptRows = kPromptWarps * 16, kPromptStages = 3;
constexpr int kDecodeRows = 16;

// Sums of the pieces of decoding rows: [segment][kv head][piece][row] of kDim values, then of best
// and total.
struct Pieces {
  float* values;
  float2* sums;  // best, total
  int pieces, rows;
  __device__ int64_t at(int segment, int kv_heads, int kv_head, int piece, int row) const {
    return ((int64_t{segment} * kv_heads + kv_head) * pieces + piece) * rows + row;
  }
};

__device__ bool decodes(const AttentionParams& p, int segment) {
  return p.plan.segment_q_len[segment] * (p.heads / p.kv_heads) <= kDecodeRows;
}

// One warp: one piece of one key/value head of one segment.
template <class C, int kDim>
__global__ void __launch_bounds__(32) decode_kernel(AttentionParams p, Pieces out) {
  begin_kernel();
  extern __shared__ __align__(128) uint8_t memory[];
  const int lane = static_cast<int>(threadIdx.x);
  const int piece_index = static_cast<int>(blockIdx.x), kv_head = static_cast<int>(blockIdx.y);
  const int segment = static_cast<int>(blockIdx.z);
  const int kv_len = p.plan.segment_kv_len[segment], q_len = p.plan.segment_q_len[segment];
  const int begin = piece_index * kAttentionPiece;
  if (q_len == 0 || begin >= kv_len || !decodes(p, segment)) return;
  if (p.window > 0 && begin + kAttentionPiece <= kv_len - q_len + 1 - p.window) return;
  const int32_t* table = p.plan.tables + p.plan.table_begin[segment];
  const uint32_t stages = shared_address(memory);
  constexpr uint32_t kTile = kKeyTileBytes<kDim>;
#pragma unroll
  for (int t = 0; t < kTilesInPiece; ++t) {
    const int tile = piece_index * kTilesInPiece + t;
    copy_key_tile<kDim, 32>(p, static_cast<const uint16_t*>(p.k), table, kv_head, tile, kv_len,
                            stages + static_cast<uint32_t>(2 * t) * kTile);
    copy_key_tile<kDim, 32>(p, static_cast<const uint16_t*>(p.v), table, kv_head, tile, kv_len,
                            stages + static_cast<uint32_t>(2 * t + 1) * kTile);
    commit_copies();
  }
  const RowMap map{p.heads / p.kv_heads, q_len};
  uint32_t q[kDim / 16][4];
  load_queries<C, kDim>(p, map, p.plan.segment_row[segment], kv_head, 0, lane, q);
  int length[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = lane / 4 + 8 * h;
    length[h] = map.valid(r) ? kv_len - q_len + map.token(r) + 1 : 0;
  }
  Partial<kDim> piece;
  piece.clear();
#pragma unroll 1
  for (int t = 0; t < kTilesInPiece; ++t) {
    switch (t) {
      case 0:
        wait_copies<3>();
        break;
      case 1:
        wait_copies<2>();
        break;
      case 2:
        wait_copies<1>();
        break;
      default:
        wait_copies<0>();
    }
    __syncwarp();
    const uint32_t keys = stages + static_cast<uint32_t>(2 * t) * kTile;
    add_tile<C, kDim>(p, q, length, begin + t * kKeyTile, lane, keys, keys + kTile, piece);
  }
  close_piece(piece);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = lane / 4 + 8 * h;
    if (!map.valid(r)) continue;
    const int64_t at = out.at(segment, p.kv_heads, kv_head, piece_index, r);
    if (lane % 4 == 0) out.sums[at] = make_float2(piece.best[h], piece.total[h]);
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      *reinterpret_cast<float2*>(out.values + at * kDim + n * 8 + lane % 4 * 2) =
          make_float2(piece.o[n][2 * h], piece.o[n][2 * h + 1]);
    }
  }
}

// One block a row and query head, a thread for each value.
template <int kDim>
__global__ void __launch_bounds__(kDim) merge_kernel(AttentionParams p, Pieces in) {
  begin_kernel();
  const int row = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int segment = p.plan.row_segment[row], d = static_cast<int>(threadIdx.x);
  auto* out = static_cast<__nv_bfloat16*>(p.out) + (int64_t{row} * p.heads + head) * kDim + d;
  if (segment < 0) {
    *out = __float2bfloat16_rn(0.0F);
    return;
  }
  if (!decodes(p, segment)) return;
  const int group = p.heads / p.kv_heads, length = p.plan.row_length[row];
  const int r = (row - p.plan.segment_row[segment]) * group + head % group;
  const int first = p.window > 0 ? max(0, length - p.window) / kAttentionPiece : 0;
  const int last = (length - 1) / kAttentionPiece;
  float best = p.sinks != nullptr ? p.sinks[head] * kLog2E : -INFINITY;
  float total = p.sinks != nullptr ? 1.0F : 0.0F, value = 0.0F;
  const int64_t step = in.rows;
  int64_t at = in.at(segment, p.kv_heads, head / group, first, r);
#pragma unroll 4
  for (int i = first; i <= last; ++i, at += step) {
    const float2 sums = in.sums[at];
    const float v = in.values[at * kDim + d];
    const MergeWeights w = merge_weights(best, sums.x);
    total = merge(total, sums.y, w);
    value = merge(value, v, w);
  }
  *out = __float2bfloat16_rn(value / total);
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
    length[h] = map.valid(r) ? before + map.token(r) + 1 : 0;
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
    close_piece(piece);
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
  const int64_t count = int64_t{p.plan.num_segments} * p.kv_heads * pieces.pieces * pieces.rows;
  const Scratch values(count * kDim * 4), sums(count * 8);
  pieces.values = values.as<float>();
  pieces.sums = sums.as<float2>();
  const dim3 grid(static_cast<unsigned>(pieces.pieces), static_cast<unsigned>(p.kv_heads),
                  static_cast<unsigned>(p.plan.num_segments));
  launch(decode_kernel<C, kDim>, grid, 32, kShared, p, pieces);
  MLXCEL_CUDA_LAUNCHED("attention of decoding rows");
  const dim3 rows(static_cast<unsigned>(p.plan.num_rows), static_cast<unsigned>(p.heads));
  launch(merge_kernel<kDim>, rows, kDim, 0, p, pieces);
  MLXCEL_CUDA_LAUNCHED("merging of attention");
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
  // Also writes the zeros of rows without a segment.
  run_decode<C, kDim>(p);
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

#include "ops/attention_plan.h"

#include <algorithm>

namespace mlxcel::ops {

AttentionPlanSizes write_attention_plan(std::span<const AttentionSegment> segments,
                                        int32_t num_rows, int32_t block_tokens,
                                        std::vector<int32_t>& out) {
  AttentionPlanSizes sizes{.num_rows = num_rows,
                           .num_segments = static_cast<int32_t>(segments.size())};
  const auto rows = static_cast<size_t>(num_rows);
  int32_t covered = 0;
  for (const AttentionSegment& s : segments) covered += s.q_len;
  sizes.has_gaps = covered < num_rows;
  const size_t row_segment = out.size();
  out.resize(row_segment + 3 * rows, -1);
  const size_t row_length = row_segment + rows, row_slot = row_length + rows;
  std::fill_n(out.begin() + static_cast<ptrdiff_t>(row_length), rows, 0);
  for (size_t i = 0; i < segments.size(); ++i) {
    const AttentionSegment& s = segments[i];
    sizes.max_q_len = std::max(sizes.max_q_len, s.q_len);
    sizes.max_kv_len = std::max(sizes.max_kv_len, s.kv_len);
    for (int32_t t = 0; t < s.q_len; ++t) {
      const auto row = static_cast<size_t>(s.row + t);
      const int32_t position = s.kv_len - s.q_len + t;
      out[row_segment + row] = static_cast<int32_t>(i);
      out[row_length + row] = position + 1;
      out[row_slot + row] =
          s.blocks[position / block_tokens] * block_tokens + position % block_tokens;
    }
  }
  for (const AttentionSegment& s : segments) out.push_back(s.row);
  for (const AttentionSegment& s : segments) out.push_back(s.q_len);
  for (const AttentionSegment& s : segments) out.push_back(s.kv_len);
  int32_t begin = 0;
  for (const AttentionSegment& s : segments) {
    out.push_back(begin);
    if (s.q_len > 0) begin += (s.kv_len + block_tokens - 1) / block_tokens;
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].q_len <= 1) continue;
    for (int32_t t = 0; t < segments[i].q_len; t += kPlanTileRows) {
      out.push_back(static_cast<int32_t>(i));
      out.push_back(t);
      ++sizes.num_tiles;
    }
  }
  for (const AttentionSegment& s : segments) {
    if (s.q_len == 0) continue;
    out.insert(out.end(), s.blocks, s.blocks + (s.kv_len + block_tokens - 1) / block_tokens);
  }
  return sizes;
}

AttentionPlan bind_attention_plan(const AttentionPlanSizes& sizes, const int32_t* base) {
  AttentionPlan plan{.num_rows = sizes.num_rows,
                     .num_segments = sizes.num_segments,
                     .num_tiles = sizes.num_tiles,
                     .max_q_len = sizes.max_q_len,
                     .max_kv_len = sizes.max_kv_len,
                     .has_gaps = sizes.has_gaps};
  const auto take = [&](int64_t count) {
    const int32_t* at = base;
    base += count;
    return at;
  };
  plan.row_segment = take(sizes.num_rows);
  plan.row_length = take(sizes.num_rows);
  plan.row_slot = take(sizes.num_rows);
  plan.segment_row = take(sizes.num_segments);
  plan.segment_q_len = take(sizes.num_segments);
  plan.segment_kv_len = take(sizes.num_segments);
  plan.table_begin = take(sizes.num_segments);
  plan.tiles = take(2 * int64_t{sizes.num_tiles});
  plan.tables = take(0);
  return plan;
}

}  // namespace mlxcel::ops

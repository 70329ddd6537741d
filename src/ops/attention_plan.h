// From the segments of a batch to the index arrays that device kernels read. Everything before the
// block tables has a size fixed by the numbers of rows, segments and tiles, so that steps of equal
// numbers find their arrays at equal places.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/ops.h"

namespace mlxcel::ops {

inline constexpr int32_t kPlanTileRows = 64;

/// Numbers that fix the places of the arrays.
struct AttentionPlanSizes {
  int32_t num_rows = 0, num_segments = 0, num_tiles = 0;
  int32_t max_q_len = 0, max_kv_len = 0;
  bool has_gaps = false;
};

/// Appends the arrays for `segments` in a batch of `num_rows` rows to `out`. Rows outside every
/// segment see nothing and write nothing. Segments must have been checked, and their block tables
/// cover kv_len positions.
AttentionPlanSizes write_attention_plan(std::span<const AttentionSegment> segments,
                                        int32_t num_rows, int32_t block_tokens,
                                        std::vector<int32_t>& out);
/// The plan whose arrays lie at `base`, as write_attention_plan put them.
AttentionPlan bind_attention_plan(const AttentionPlanSizes& sizes, const int32_t* base);

}  // namespace mlxcel::ops

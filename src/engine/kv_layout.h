// What the layers of a model need from the cache: block groups, bytes, and how much memory may be
// spent on them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nn/causal_lm.h"
#include "tensor/dtype.h"

namespace mlxcel::engine {

/// Layers that keep keys and values for the same positions share block ids: all full-attention
/// layers form one group, layers of each window size another one.
struct BlockGroup {
  int32_t window = 0;  // 0 = every position is kept
  std::vector<int32_t> layers;
  int64_t block_bytes = 0;  // one block id, over all its layers
};

struct KvLayout {
  int32_t block_tokens = 32;
  DType type = DType::F16;
  std::vector<nn::CacheSpec> layers;
  std::vector<BlockGroup> groups;
  std::vector<int32_t> layer_group;  // -1: the layer keeps no blocks
  bool recurrent = false;            // some layer keeps a state row
  int64_t state_bytes = 0;           // of one state row, over all layers (f32)

  /// Bytes of blocks that a sequence of `tokens` committed positions holds at most while it grows
  /// by `step_tokens` at a time.
  int64_t sequence_bytes(int64_t tokens, int64_t step_tokens) const;
  /// Bytes one more position costs at the margin, over all layers.
  int64_t bytes_per_token() const;
};

/// Throws InvalidArgument for a geometry that cannot be stored (negative or huge dimensions, a
/// block size outside [1, 4096], a cache type that is not F32, F16 or BF16).
KvLayout make_kv_layout(std::span<const nn::CacheSpec> layers, int32_t block_tokens, DType type);

/// Memory that this process may still take, in bytes: MemAvailable of the machine, less where a
/// control group sets a tighter limit. Throws NotFound when the system does not say.
int64_t available_memory_bytes();
/// Physical memory of the machine in bytes.
int64_t total_memory_bytes();

/// The block budget of `auto`: what is available, less the activations of the largest step, over a
/// head-room factor of 1.25, and never more than `useful_bytes`. At least `floor_bytes`.
int64_t auto_kv_budget(int64_t available_bytes, int64_t activation_bytes, int64_t useful_bytes,
                       int64_t floor_bytes);

}  // namespace mlxcel::engine

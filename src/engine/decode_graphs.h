// Decoding steps recorded once and replayed: on a device a step of a few rows is a few hundred
// launches, which take the host longer than the device. A recording serves every step of up to so
// many rows and so many positions; rows it has too many see nothing and write nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "engine/kv_cache.h"
#include "nn/causal_lm.h"
#include "tensor/device.h"

namespace mlxcel::engine {

class DecodeGraphs {
 public:
  /// Both must outlive this.
  DecodeGraphs(const nn::CausalLm& model, const KvCache& cache) : model_(model), cache_(cache) {}

  /// A recording and the device memory that its launches read.
  struct Entry {
    int32_t rows = 0;         // of every step; sequences beyond those wanted are empty
    int32_t table_words = 0;  // room for the block tables of a group
    std::shared_ptr<Buffer> indices;
    std::unique_ptr<StepCaches> caches;
    std::vector<nn::Segment> segments;
    nn::Batch batch;
    Tensor logits;  // [rows, V] f32, on the device
    Tensor best;    // [rows] i32
    std::unique_ptr<DeviceGraph> graph;
  };
  /// The entry for `rows` sequences of up to `max_kv_len` positions; null when there are too many
  /// rows or the model keeps other state than keys and values.
  Entry* find(int32_t rows, int32_t max_kv_len);
  /// Index arrays of a step, as the entry's launches expect them. `caches` has one segment a row.
  static std::vector<int32_t> indices(const Entry& entry, std::span<const int32_t> tokens,
                                      std::span<const int32_t> positions, StepCaches& caches);
  /// Runs a step whose indices have been copied to entry.indices; records it first when it is new.
  void run(Entry& entry);

 private:
  void record(Entry& entry);
  const nn::CausalLm& model_;
  const KvCache& cache_;
  std::map<std::pair<int32_t, int32_t>, Entry> entries_;  // by rows and positions
};

}  // namespace mlxcel::engine

#include "engine/decode_graphs.h"

#include <algorithm>
#include <bit>

#include "ops/ops.h"

namespace mlxcel::engine {
namespace {

constexpr int32_t kMostRows = 128;
constexpr int32_t kFewestPositions = 512;

// Few sizes, none much larger than what it is wanted for: 1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128.
int32_t rows_of(int32_t rows) {
  if (rows <= 16) return static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(rows)));
  const int32_t step = rows <= 32 ? 8 : rows <= 64 ? 16 : 32;
  return (rows + step - 1) / step * step;
}

int32_t positions_of(int32_t positions) {
  return std::max(kFewestPositions,
                  static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(positions))));
}

}  // namespace

DecodeGraphs::Entry* DecodeGraphs::find(int32_t rows, int32_t max_kv_len) {
  const bool by_prompt = model_.spec().prompt_regime > 0;  // the forward looks at the segments
  if (rows > kMostRows || max_kv_len > (1 << 24) || cache_.layout().recurrent || by_prompt) {
    return nullptr;
  }
  // Which launches such a model makes depends on the prompts of the rows.
  if (model_.spec().prompt_regime > 0) return nullptr;
  const std::pair key{rows_of(rows), positions_of(max_kv_len)};
  const auto found = entries_.find(key);
  if (found != entries_.end()) return &found->second;
  Entry& entry = entries_[key];
  entry.rows = key.first;
  const int32_t block = cache_.layout().block_tokens;
  entry.table_words = key.first * ((key.second + block - 1) / block);
  entry.caches = std::make_unique<StepCaches>(cache_);
  // The longest segment sizes the launches; what a step really has is in the indices.
  for (int32_t i = 0; i < key.first; ++i) {
    entry.segments.push_back({.row = i, .q_len = 1, .kv_len = key.second, .cache_row = -1});
  }
  entry.caches->pad(key.first);
  std::vector<int32_t> words(3 * static_cast<size_t>(key.first), 0);
  entry.caches->write_plans(key.first, words, entry.table_words, key.second);
  const int64_t bytes = std::ssize(words) * 4;
  entry.indices = device_runtime(model_.spec().device).allocate(bytes);
  const auto part = [&](int64_t i) {
    return Tensor::over(entry.indices, i * key.first * 4, {key.first}, DType::I32);
  };
  entry.batch.token_ids = part(0);
  entry.batch.positions = part(1);
  entry.batch.logit_rows = part(2);
  entry.caches->bind_plans(static_cast<const int32_t*>(entry.indices->data()));
  entry.batch.segments = entry.segments;
  entry.batch.caches = entry.caches.get();
  return &entry;
}

std::vector<int32_t> DecodeGraphs::indices(const Entry& entry, std::span<const int32_t> tokens,
                                           std::span<const int32_t> positions, StepCaches& caches) {
  const auto rows = static_cast<size_t>(entry.rows);
  std::vector<int32_t> words(3 * rows, 0);
  std::ranges::copy(tokens, words.begin());
  std::ranges::copy(positions, words.begin() + entry.rows);
  for (size_t i = 0; i < rows; ++i) words[2 * rows + i] = static_cast<int32_t>(i);
  caches.pad(entry.rows);
  caches.write_plans(entry.rows, words, entry.table_words);
  return words;
}

void DecodeGraphs::run(Entry& entry) {
  if (!entry.graph) record(entry);
  entry.graph->launch();
}

void DecodeGraphs::record(Entry& entry) {
  // Once for real: kernels prepare themselves at their first launch.
  model_.forward(entry.batch);
  entry.graph = device_runtime(model_.spec().device).record([&] {
    entry.logits = model_.forward(entry.batch);
    entry.best = ops::argmax_rows(entry.logits);
  });
}

}  // namespace mlxcel::engine

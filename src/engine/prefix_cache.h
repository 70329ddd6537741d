// Reuse of computed prompts. Blocks are kept under a hash chain over their tokens, shared by all
// requests of one scope; a follow-up that leaves the chain inside a block forks that block.
//   h_i = H("mlxcel:apc:block:v1" | h_{i-1} | u64le(count) | tokens as i32le | extra)
// with 32 zero bytes before the first block and extra = H of the request's scope.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/sha256.h"
#include "engine/kv_cache.h"
#include "engine/stats.h"
#include "text/tokenizer.h"

namespace mlxcel::engine {

using text::TokenId;

struct PrefixCacheOptions {
  int64_t max_bytes = int64_t{2} << 30;  // of blocks
  int32_t max_entries = 1024;            // stored prompts: ends of chains
  int32_t min_tokens = 32;               // shorter matches are not used
  double ttl_s = 3600;                   // since the last hit
  bool blake3 = false;                   // instead of SHA-256
  int64_t snapshot_max_bytes = int64_t{512} << 20;
  int32_t snapshot_max_entries = 4096;
  double snapshot_ttl_s = 7200;
};

/// What KvCache::adopt takes. Valid until the next call of the cache.
struct PrefixMatch {
  int32_t num_tokens = 0;  // 0 = nothing found
  std::vector<std::vector<BlockId>> blocks;
  const StateSnapshot* state = nullptr;
};

class PrefixCache {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Keeps blocks of `kv`, which must outlive this.
  PrefixCache(KvCache& kv, const PrefixCacheOptions& options);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  /// The longest stored prefix of `tokens` that leaves at least one token to compute. Layers with a
  /// window need their blocks inside it, recurrent layers a snapshot at exactly that length.
  PrefixMatch find(std::string_view scope, std::span<const TokenId> tokens, TimePoint now);
  /// Counts a look-up for the statistics, when its result is used.
  void count_lookup(int32_t num_tokens, int32_t num_found);
  /// Keeps the blocks of `tokens`, the committed positions of `a`. `with_tail`: also the last,
  /// partly filled block, which the sequence must not write to any more unless it copies it first.
  /// `state`: of recurrent layers after exactly these tokens; may be null.
  void donate(std::string_view scope, std::span<const TokenId> tokens, const CacheAllocation& a,
              bool with_tail, std::optional<StateSnapshot> state, TimePoint now);
  /// Gives back the least recently used block; false when nothing is kept.
  bool evict_one();
  void expire(TimePoint now);
  void clear();

  int64_t bytes() const { return bytes_; }
  int64_t num_blocks() const { return static_cast<int64_t>(nodes_.size()); }
  PrefixStats stats() const;
  /// Calls fn(group, block) for every block held.
  void for_each_block(const std::function<void(int32_t, BlockId)>& fn) const;

 private:
  struct Node;
  struct DigestHash {
    size_t operator()(const Digest256& d) const;
  };
  struct Path;

  Digest256 digest(std::span<const std::byte> data) const;
  Digest256 scope_digest(std::string_view scope) const;
  Digest256 chain(const Digest256& parent, std::span<const TokenId> tokens,
                  const Digest256& extra) const;
  Node* child(Node& parent, std::span<const TokenId> tokens, const Digest256& extra);
  Node& add_child(Node& parent, std::span<const TokenId> tokens, const Digest256& extra);
  Path walk(Node& root, std::span<const TokenId> tokens, const Digest256& extra);
  bool usable(const Path& path, size_t length) const;
  Node* add_tail(Node& parent, std::span<const TokenId> tail, const Digest256& extra);
  void hold_blocks(Node& node, const CacheAllocation& a, size_t index, int32_t num_tokens);
  void set_state(Node& node, StateSnapshot state);
  void drop_state(Node& node);
  void touch(Node& node, TimePoint now);
  void remove(Node& node);
  void enforce_limits();

  KvCache& kv_;  // owned by the runner
  PrefixCacheOptions options_;
  std::unordered_map<Digest256, std::unique_ptr<Node>, DigestHash> nodes_;
  std::unordered_map<Digest256, std::unique_ptr<Node>, DigestHash> roots_;  // by scope
  std::list<Node*> recent_;         // front = used last; a parent is always before its children
  std::list<Node*> recent_states_;  // nodes with a snapshot, likewise
  int64_t bytes_ = 0, state_bytes_ = 0;
  int32_t num_leaves_ = 0;
  bool warned_too_big_ = false;

  PrefixStats counts_;
};

}  // namespace mlxcel::engine

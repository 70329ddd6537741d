#include "engine/prefix_cache.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/blake3.h"
#include "base/error.h"
#include "base/log.h"

namespace mlxcel::engine {
namespace {

void append_le(std::vector<std::byte>& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void append_text(std::vector<std::byte>& out, std::string_view text) {
  for (const char c : text) out.push_back(static_cast<std::byte>(c));
}

size_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t n = std::min(a.size(), b.size());
  size_t i = 0;
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

}  // namespace

// One block: full, or the last one of a stored prompt. A root has no tokens and no blocks.
struct PrefixCache::Node {
  Digest256 key{};
  Node* parent = nullptr;
  std::vector<Node*> children;
  std::vector<TokenId> tokens;  // compared on every hit, so a hash collision cannot mix prompts
  std::vector<BlockId> blocks;  // one a group; kNoBlock where a window does not reach
  std::optional<StateSnapshot> state;
  TimePoint used{};
  std::list<Node*>::iterator recent, recent_state;
};

// Nodes from the first block on; all are matched whole but the last, of which `last_tokens` are.
struct PrefixCache::Path {
  std::vector<Node*> nodes;
  size_t last_tokens = 0;
};

size_t PrefixCache::DigestHash::operator()(const Digest256& d) const {
  size_t value = 0;
  std::memcpy(&value, d.data(), sizeof value);
  return value;
}

PrefixCache::PrefixCache(KvCache& kv, const PrefixCacheOptions& options)
    : kv_(kv), options_(options) {}

PrefixCache::~PrefixCache() { clear(); }

Digest256 PrefixCache::digest(std::span<const std::byte> data) const {
  if (options_.blake3) return blake3(data);
  return sha256({reinterpret_cast<const char*>(data.data()), data.size()});
}

Digest256 PrefixCache::scope_digest(std::string_view scope) const {
  std::vector<std::byte> data;
  append_text(data, "mlxcel:apc:scope:v1");
  append_le(data, scope.size(), 8);
  append_text(data, scope);
  return digest(data);
}

Digest256 PrefixCache::chain(const Digest256& parent, std::span<const TokenId> tokens,
                             const Digest256& extra) const {
  std::vector<std::byte> data;
  data.reserve(96 + tokens.size() * 4);
  append_text(data, "mlxcel:apc:block:v1");
  for (const uint8_t b : parent) data.push_back(static_cast<std::byte>(b));
  append_le(data, tokens.size(), 8);
  for (const TokenId t : tokens) append_le(data, static_cast<uint32_t>(t), 4);
  for (const uint8_t b : extra) data.push_back(static_cast<std::byte>(b));
  return digest(data);
}

PrefixCache::Node* PrefixCache::child(Node& parent, std::span<const TokenId> tokens,
                                      const Digest256& extra) {
  const auto it = nodes_.find(chain(parent.key, tokens, extra));
  if (it == nodes_.end() || it->second->parent != &parent ||
      !std::ranges::equal(it->second->tokens, tokens)) {
    return nullptr;
  }
  return it->second.get();
}

PrefixCache::Node& PrefixCache::add_child(Node& parent, std::span<const TokenId> tokens,
                                          const Digest256& extra) {
  auto node = std::make_unique<Node>();
  node->key = chain(parent.key, tokens, extra);
  node->parent = &parent;
  node->tokens.assign(tokens.begin(), tokens.end());
  node->blocks.assign(kv_.layout().groups.size(), kNoBlock);
  const bool parent_was_leaf = parent.parent != nullptr && parent.children.empty();
  if (!parent_was_leaf) ++num_leaves_;
  parent.children.push_back(node.get());
  node->recent = recent_.insert(recent_.end(), node.get());
  node->recent_state = recent_states_.end();
  ++counts_.blocks_stored;
  Node& out = *node;
  auto& slot = nodes_[out.key];
  MLXCEL_CHECK(slot == nullptr, "two blocks of the prefix cache have one digest");
  slot = std::move(node);
  return out;
}

PrefixCache::Path PrefixCache::walk(Node& root, std::span<const TokenId> tokens,
                                    const Digest256& extra) {
  const auto block = static_cast<size_t>(kv_.layout().block_tokens);
  Path path;
  Node* node = &root;
  size_t at = 0;
  for (; tokens.size() - at >= block; at += block) {
    Node* next = child(*node, tokens.subspan(at, block), extra);
    if (next == nullptr) break;
    path.nodes.push_back(next);
    node = next;
  }
  path.last_tokens = path.nodes.empty() ? 0 : block;
  // Inside the next block: the child that agrees longest.
  Node* best = nullptr;
  size_t longest = 0;
  for (Node* c : node->children) {
    const size_t n = common_prefix(c->tokens, tokens.subspan(at));
    if (n > longest && (!kv_.layout().recurrent || (n == c->tokens.size() && c->state))) {
      longest = n;
      best = c;
    }
  }
  if (best != nullptr) {
    path.nodes.push_back(best);
    path.last_tokens = longest;
  }
  return path;
}

// Whether the first `length` nodes of the path hold everything that the layers need.
bool PrefixCache::usable(const Path& path, size_t length) const {
  const auto& layout = kv_.layout();
  const Node& last = *path.nodes[length - 1];
  const size_t used = length == path.nodes.size() ? path.last_tokens : last.tokens.size();
  if (layout.recurrent && (!last.state || used != last.tokens.size())) return false;
  const auto block = static_cast<int64_t>(layout.block_tokens);
  const int64_t num_tokens = static_cast<int64_t>(length - 1) * block + static_cast<int64_t>(used);
  for (size_t g = 0; g < layout.groups.size(); ++g) {
    const int64_t window = layout.groups[g].window;
    const int64_t first = window == 0 ? 0 : std::max<int64_t>(0, num_tokens - window + 1) / block;
    for (auto i = static_cast<size_t>(first); i < length; ++i) {
      if (path.nodes[i]->blocks[g] == kNoBlock) return false;
    }
  }
  return true;
}

PrefixMatch PrefixCache::find(std::string_view scope, std::span<const TokenId> tokens,
                              TimePoint now) {
  PrefixMatch match;
  const Digest256 extra = scope_digest(scope);
  const auto root = roots_.find(extra);
  if (root == roots_.end() || tokens.empty()) return match;
  const Path path = walk(*root->second, tokens.first(tokens.size() - 1), extra);
  size_t length = path.nodes.size();
  while (length > 0 && !usable(path, length)) --length;
  if (length == 0) return match;
  Node& last = *path.nodes[length - 1];
  const size_t used = length == path.nodes.size() ? path.last_tokens : last.tokens.size();
  const auto num_tokens =
      static_cast<int32_t>((length - 1) * static_cast<size_t>(kv_.layout().block_tokens) + used);
  if (num_tokens < options_.min_tokens) return match;
  match.num_tokens = num_tokens;
  match.blocks.resize(kv_.layout().groups.size());
  for (size_t g = 0; g < match.blocks.size(); ++g) {
    for (size_t i = 0; i < length; ++i) match.blocks[g].push_back(path.nodes[i]->blocks[g]);
  }
  if (kv_.layout().recurrent) {
    match.state = &*last.state;
    recent_states_.splice(recent_states_.begin(), recent_states_, last.recent_state);
  }
  touch(last, now);
  return match;
}

void PrefixCache::count_lookup(int32_t num_tokens, int32_t num_found) {
  const bool hit = num_found > 0;
  ++counts_.lookups;
  counts_.tokens_looked_up += num_tokens;
  counts_.tokens_reused += num_found;
  if (hit) ++counts_.hits;
  if (num_found % kv_.layout().block_tokens != 0) ++counts_.partial_block_hits;
  if (!kv_.layout().recurrent) return;
  ++(hit ? counts_.snapshot_hits : counts_.snapshot_misses);
  counts_.snapshot_tokens_reused += num_found;
}

void PrefixCache::donate(std::string_view scope, std::span<const TokenId> tokens,
                         const CacheAllocation& a, bool with_tail,
                         std::optional<StateSnapshot> state, TimePoint now) {
  MLXCEL_CHECK(static_cast<int32_t>(tokens.size()) == a.num_tokens,
               "only committed positions can be kept");
  const auto block = static_cast<size_t>(kv_.layout().block_tokens);
  const size_t num_full = tokens.size() / block;
  const size_t kept = with_tail ? tokens.size() : num_full * block;
  if (kept == 0 || kept < static_cast<size_t>(options_.min_tokens)) return;
  ++counts_.donations;
  const Digest256 extra = scope_digest(scope);
  auto& root = roots_[extra];
  if (!root) root = std::make_unique<Node>();
  Node* node = root.get();
  for (size_t i = 0; i < num_full; ++i) {
    const auto part = tokens.subspan(i * block, block);
    Node* next = child(*node, part, extra);
    if (next == nullptr) next = &add_child(*node, part, extra);
    hold_blocks(*next, a, i, static_cast<int32_t>(kept));
    node = next;
  }
  if (kept > num_full * block) {
    Node* tail = add_tail(*node, tokens.subspan(num_full * block), extra);
    if (tail != nullptr) {
      hold_blocks(*tail, a, num_full, static_cast<int32_t>(kept));
      node = tail;
    }
  }
  if (state && kept == tokens.size()) set_state(*node, std::move(*state));
  touch(*node, now);
  enforce_limits();
}

// The node for a partly filled block; null when a stored block already begins with it (and no
// snapshot is to be put there).
PrefixCache::Node* PrefixCache::add_tail(Node& parent, std::span<const TokenId> tail,
                                         const Digest256& extra) {
  Node* same = nullptr;
  std::vector<Node*> superseded;
  for (Node* c : parent.children) {
    const size_t n = common_prefix(c->tokens, tail);
    if (n == tail.size() && (c->tokens.size() == n || !kv_.layout().recurrent)) same = c;
    // A snapshot stays useful where it is; without one the longer block serves both.
    if (n == c->tokens.size() && n < tail.size() && !kv_.layout().recurrent) {
      superseded.push_back(c);
    }
  }
  if (same != nullptr) return same->tokens.size() == tail.size() ? same : nullptr;
  Node& node = add_child(parent, tail, extra);
  for (Node* c : superseded) remove(*c);
  return &node;
}

// Shares the block at `index` with the sequence. Behind a window only the blocks that a
// continuation right after `num_tokens` would read are worth their memory.
void PrefixCache::hold_blocks(Node& node, const CacheAllocation& a, size_t index,
                              int32_t num_tokens) {
  const auto& layout = kv_.layout();
  for (size_t g = 0; g < layout.groups.size(); ++g) {
    const BlockId id = a.blocks[g].at(index);
    if (node.blocks[g] != kNoBlock || id == kNoBlock) continue;
    const int64_t end = static_cast<int64_t>(index + 1) * layout.block_tokens;
    const int64_t window = layout.groups[g].window;
    if (window > 0 && end <= num_tokens - window + 1) continue;
    kv_.share(static_cast<int32_t>(g), id);
    node.blocks[g] = id;
    bytes_ += layout.groups[g].block_bytes;
  }
}

void PrefixCache::set_state(Node& node, StateSnapshot state) {
  if (node.state) drop_state(node);
  if (state.bytes() > options_.snapshot_max_bytes) {
    ++counts_.rejected;
    if (!std::exchange(warned_too_big_, true)) {
      log::warn(
          "a state snapshot of {} bytes is larger than --prompt-cache-snapshot-capacity-bytes",
          state.bytes());
    }
    return;
  }
  state_bytes_ += state.bytes();
  node.state = std::move(state);
  node.recent_state = recent_states_.insert(recent_states_.begin(), &node);
}

void PrefixCache::drop_state(Node& node) {
  if (!node.state) return;
  state_bytes_ -= node.state->bytes();
  node.state.reset();
  recent_states_.erase(node.recent_state);
  node.recent_state = recent_states_.end();
}

// Moves the chain to the front, the deepest block first, so that a parent outlives its children.
void PrefixCache::touch(Node& node, TimePoint now) {
  for (Node* n = &node; n->parent != nullptr; n = n->parent) {
    n->used = now;
    recent_.splice(recent_.begin(), recent_, n->recent);
  }
}

void PrefixCache::remove(Node& node) {
  MLXCEL_CHECK(node.children.empty(), "a block of the prefix cache goes before its children");
  drop_state(node);
  for (size_t g = 0; g < node.blocks.size(); ++g) {
    if (node.blocks[g] == kNoBlock) continue;
    kv_.drop(static_cast<int32_t>(g), node.blocks[g]);
    bytes_ -= kv_.layout().groups[g].block_bytes;
  }
  Node& parent = *node.parent;
  std::erase(parent.children, &node);
  const bool parent_is_root = parent.parent == nullptr;
  if (parent_is_root || !parent.children.empty()) --num_leaves_;
  if (parent_is_root && parent.children.empty()) {
    std::erase_if(roots_, [&](const auto& entry) { return entry.second.get() == &parent; });
  }
  recent_.erase(node.recent);
  ++counts_.blocks_evicted;
  nodes_.erase(Digest256(node.key));
}

bool PrefixCache::evict_one() {
  if (recent_.empty()) return false;
  remove(*recent_.back());
  return true;
}

void PrefixCache::enforce_limits() {
  while (bytes_ > options_.max_bytes || num_leaves_ > options_.max_entries) {
    if (!evict_one()) break;
  }
  while (state_bytes_ > options_.snapshot_max_bytes ||
         static_cast<int64_t>(recent_states_.size()) > options_.snapshot_max_entries) {
    drop_state(*recent_states_.back());
  }
}

void PrefixCache::expire(TimePoint now) {
  const auto age = [&](const Node& n) {
    return std::chrono::duration<double>(now - n.used).count();
  };
  while (!recent_.empty() && age(*recent_.back()) > options_.ttl_s) {
    ++counts_.expired;
    evict_one();
  }
  while (!recent_states_.empty() && age(*recent_states_.back()) > options_.snapshot_ttl_s) {
    drop_state(*recent_states_.back());
  }
}

void PrefixCache::clear() {
  while (evict_one()) {
  }
}

void PrefixCache::for_each_block(const std::function<void(int32_t, BlockId)>& fn) const {
  for (const auto& [key, node] : nodes_) {
    for (size_t g = 0; g < node->blocks.size(); ++g) {
      if (node->blocks[g] != kNoBlock) fn(static_cast<int32_t>(g), node->blocks[g]);
    }
  }
}

PrefixStats PrefixCache::stats() const {
  PrefixStats s = counts_;
  s.blocks = num_blocks();
  s.entries = num_leaves_;
  s.bytes = bytes_;
  s.capacity_bytes = options_.max_bytes;
  s.snapshots = static_cast<int64_t>(recent_states_.size());
  s.snapshot_bytes = state_bytes_;
  return s;
}

}  // namespace mlxcel::engine

// Who gets a row and blocks: admission, preemption, reclaiming, and what is kept for later.
#include <algorithm>
#include <cmath>

#include "engine/engine_core.h"

namespace mlxcel::engine {

// Admits the head of the queue and those that go with it; when the head does not fit, admission
// waits until something is given back.
void EngineCore::admit() {
  const int32_t free_rows = resolved_.options.max_batch - static_cast<int32_t>(rows_.size());
  const auto lengths = queue_.head_lengths(std::max(1, resolved_.policy.max_batch_prefill));
  const int32_t count = std::max(1, cohort_size(lengths, resolved_.policy, free_rows));
  for (int32_t i = 0; i < count; ++i) {
    const SequencePtr s = *queue_.head();
    if (admit_one(s)) {
      queue_.pop();
      rows_.push_back(s);
      continue;
    }
    if (rows_.empty() && scores_.empty()) {  // nothing left that could give blocks back
      queue_.pop();
      fail(*s, Error(Code::ResourceExhausted, "KV cache budget exhausted"));
      return;
    }
    admission_blocked_ = true;
    stats_.update([](EngineStats& st) { ++st.counters.admission_waits; });
    return;
  }
}

bool EngineCore::admit_one(const SequencePtr& s) {
  if (!open_cache(*s)) return false;
  KvCache& kv = runner_.cache();
  const auto target = std::min(static_cast<int32_t>(s->tokens.size()) + 1, s->limit_tokens);
  const double kept_free = has_decoding() ? std::ceil(resolved_.options.admission_watermark *
                                                      static_cast<double>(kv.budget_bytes()))
                                          : 0.0;
  const int64_t need = kv.growth_bytes(s->cache, target, resolved_.step_tokens) + promised_bytes() +
                       static_cast<int64_t>(kept_free);
  if (!make_room(need, s->request.priority)) {
    kv.close(s->cache);
    return false;
  }
  const auto now = Clock::now();
  const int32_t found = s->cache.num_tokens;
  if (prefix_ && s->request.use_prefix_cache) {
    prefix_->count_lookup(static_cast<int32_t>(s->tokens.size()), found);
  }
  s->state = Sequence::State::Prefill;
  s->last_progress = now;
  trace_.mark("admit", s->id, now);
  const bool first = !std::exchange(s->was_admitted, true);
  if (first) {
    s->admitted = now;
    s->num_cached = found;
    report_progress(*s, now);
  }
  stats_.update([&](EngineStats& st) {
    ++st.counters.admissions;
    if (!first) return;
    st.counters.prompt_tokens += s->num_prompt;
    st.counters.cached_tokens += found;
    st.queue_ms.add(std::chrono::duration<double, std::milli>(now - s->submitted).count());
  });
  return true;
}

// Sequences of different scopes share no blocks: those of different requests' scopes, and prompts
// on either side of a length from which the model computes keys in another way.
std::string EngineCore::prefix_scope(const Sequence& s) const {
  const int64_t regime = runner_.spec().prompt_regime;
  const bool beyond = regime > 0 && s.num_prompt > regime;
  return beyond ? s.request.cache_scope + "|long prompt" : s.request.cache_scope;
}

// Starts the sequence's cache from the longest stored prefix.
bool EngineCore::open_cache(Sequence& s) {
  KvCache& kv = runner_.cache();
  const bool reuse = prefix_ && s.request.use_prefix_cache;
  while (true) {
    const PrefixMatch match =
        reuse ? prefix_->find(prefix_scope(s), s.tokens, Clock::now()) : PrefixMatch{};
    const bool opened = match.num_tokens > 0 ? kv.adopt(s.cache, match.blocks, match.num_tokens,
                                                        match.state, s.limit_tokens)
                                             : kv.open(s.cache, s.limit_tokens);
    if (opened) {
      s.cache.prompt_len = s.num_prompt;
      return true;
    }
    // Only dense runs and state rows can be short here.
    if (prefix_ && prefix_->evict_one()) continue;
    const auto victim = block_victim(row_infos(), s.request.priority);
    if (!victim) return false;
    preempt(SequencePtr(rows_[*victim]));
    stats_.update([](EngineStats& st) { ++st.counters.preemptions_blocks; });
  }
}

// Blocks that admitted prompts will still take.
int64_t EngineCore::promised_bytes() const {
  int64_t sum = 0;
  for (const SequencePtr& s : rows_) {
    if (s->state != Sequence::State::Prefill) continue;
    const auto target = std::min(static_cast<int32_t>(s->tokens.size()) + 1, s->limit_tokens);
    sum += runner_.cache().growth_bytes(s->cache, target, resolved_.step_tokens);
  }
  return sum;
}

std::vector<RowInfo> EngineCore::row_infos() const {
  std::vector<RowInfo> infos;
  infos.reserve(rows_.size());
  for (const SequencePtr& s : rows_) {
    infos.push_back({.priority = s->request.priority,
                     .num_generated = s->num_generated,
                     .num_computed = s->cache.num_tokens,
                     .arrival = s->id});
  }
  return infos;
}

void EngineCore::preempt_for_head() {
  const SequencePtr* head = queue_.head();
  const auto victim =
      batch_victim(row_infos(), (*head)->request.priority, resolved_.policy.preemption_policy);
  if (!victim) return;
  preempt(SequencePtr(rows_[*victim]));
  stats_.update([](EngineStats& st) { ++st.counters.preemptions_batch; });
}

// Takes a row's blocks away. It goes on later from its tokens, exactly where it was: its sampler
// and its text state stay, and its cache is computed again (or found in the prefix cache).
void EngineCore::preempt(const SequencePtr& s) {
  deliver(false);
  sweep_ended();
  if (s->ended || s->state == Sequence::State::Done) return;
  donate(*s, true);
  runner_.cache().close(s->cache);
  s->state = Sequence::State::Queued;
  std::erase(rows_, s);
  queue_.push_front(s);
  admission_blocked_ = false;
  trace_.mark("preempt", s->id, Clock::now());
}

// Makes `bytes` of blocks free: cold prefixes first, then rows that `outranked_by` may push out.
bool EngineCore::make_room(int64_t bytes, std::optional<Priority> outranked_by) {
  const KvCache& kv = runner_.cache();
  while (kv.free_bytes() < bytes) {
    if (prefix_ && prefix_->evict_one()) continue;
    if (!outranked_by) return false;
    const auto victim = block_victim(row_infos(), outranked_by);
    if (!victim) return false;
    preempt(SequencePtr(rows_[*victim]));
    stats_.update([](EngineStats& st) { ++st.counters.preemptions_blocks; });
  }
  return true;
}

// Storage for the next tokens of a row. Short blocks preempt the row with least progress, which may
// be the one that asks.
bool EngineCore::reserve_for_step(const SequencePtr& s, int32_t num_tokens) {
  const auto gone = [&] { return s->ended || s->state == Sequence::State::Queued; };
  if (gone()) return false;
  while (!runner_.cache().reserve(s->cache, num_tokens)) {
    if (prefix_ && prefix_->evict_one()) continue;
    if (rows_.size() == 1) {
      if (!scores_.empty()) return false;  // blocks come back when score() is through
      fail(*s, Error(Code::ResourceExhausted, "KV cache budget exhausted"));
      sweep_ended();
      return false;
    }
    const auto victim = block_victim(row_infos(), std::nullopt);
    preempt(SequencePtr(rows_[*victim]));
    stats_.update([](EngineStats& st) { ++st.counters.preemptions_blocks; });
    if (gone()) return false;
  }
  return true;
}

// The position where a prompt is cut so that a repeat of it finds something to start from: layers
// with a window or a recurrent state can only be continued from a point that was kept.
int32_t EngineCore::boundary(const Sequence& s) const {
  const KvLayout& layout = runner_.cache().layout();
  const bool windows =
      std::ranges::any_of(layout.groups, [](const BlockGroup& g) { return g.window > 0; });
  if (!prefix_ || !s.request.use_prefix_cache || !(layout.recurrent || windows)) return -1;
  return (static_cast<int32_t>(s.tokens.size()) - 1) / layout.block_tokens * layout.block_tokens;
}

int32_t EngineCore::piece_tokens(const Sequence& s) const {
  const int32_t cut = boundary(s) - s.cache.num_tokens;
  return cut > 0 ? cut : s.num_remaining();
}

// After a prompt piece: keeps what later requests can share.
void EngineCore::keep_boundary(Sequence& s) {
  const int32_t cut = boundary(s);
  if (s.cache.num_tokens == cut || (cut < 0 && s.num_remaining() == 0)) donate(s, false);
}

void EngineCore::donate(Sequence& s, bool with_tail) {
  if (!prefix_ || !s.request.use_prefix_cache || s.spoilt || !s.cache.open) return;
  const auto tokens =
      std::span<const TokenId>(s.tokens).first(static_cast<size_t>(s.cache.num_tokens));
  std::optional<StateSnapshot> state;
  if (runner_.cache().layout().recurrent) state = runner_.cache().save_state(s.cache);
  prefix_->donate(prefix_scope(s), tokens, s.cache, with_tail, std::move(state), Clock::now());
}

void EngineCore::release(Sequence& s) {
  donate(s, true);
  runner_.cache().close(s.cache);
  s.state = Sequence::State::Done;
  admission_blocked_ = false;
}

}  // namespace mlxcel::engine

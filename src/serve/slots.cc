#include "serve/slots.h"

#include <algorithm>

namespace mlxcel::serve {

SlotTable::SlotTable(int32_t num_slots, bool keep_text)
    : states_(static_cast<size_t>(std::max(num_slots, 1))), keep_text_(keep_text) {}

int32_t SlotTable::acquire(int32_t preferred, State state) {
  const std::lock_guard lock(mutex_);
  size_t at = 0;
  if (preferred >= 0 && preferred < num_slots() && !states_[static_cast<size_t>(preferred)].busy) {
    at = static_cast<size_t>(preferred);
  } else {
    while (at < states_.size() && states_[at].busy) ++at;
  }
  if (at == states_.size()) return -1;
  state.busy = state.used = true;
  if (!keep_text_) state.prompt.clear();
  states_[at] = std::move(state);
  return static_cast<int32_t>(at);
}

void SlotTable::progress(int32_t slot, int32_t num_processed) {
  if (slot < 0) return;
  const std::lock_guard lock(mutex_);
  states_.at(static_cast<size_t>(slot)).num_processed = num_processed;
}

void SlotTable::decoded(int32_t slot, int32_t num_decoded, int32_t num_remaining, bool has_new_line,
                        std::string_view text) {
  if (slot < 0) return;
  const std::lock_guard lock(mutex_);
  State& s = states_.at(static_cast<size_t>(slot));
  s.num_decoded = num_decoded;
  s.num_remaining = num_remaining;
  s.has_new_line = has_new_line;
  if (keep_text_) s.generated += text;
}

void SlotTable::release(int32_t slot) {
  if (slot < 0) return;
  const std::lock_guard lock(mutex_);
  states_.at(static_cast<size_t>(slot)).busy = false;
}

int32_t SlotTable::num_busy() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int32_t>(std::ranges::count_if(states_, &State::busy));
}

Json SlotTable::json(int32_t context_tokens) const {
  const std::lock_guard lock(mutex_);
  Json out = Json::array();
  for (size_t i = 0; i < states_.size(); ++i) {
    const State& s = states_[i];
    Json slot = Json::object({{"id", static_cast<int64_t>(i)},
                              {"n_ctx", context_tokens},
                              {"context_size", context_tokens},
                              {"speculative", false},
                              {"is_processing", s.busy}});
    if (s.used) {
      slot.set("id_task", static_cast<int64_t>(s.task_id));
      slot.set("n_prompt_tokens", s.num_prompt);
      slot.set("n_prompt_tokens_processed", s.num_processed);
      slot.set("n_prompt_tokens_cache", s.num_cached);
      slot.set("params", s.params);
      slot.set("next_token", Json::object({{"has_next_token", s.busy},
                                           {"has_new_line", s.has_new_line},
                                           {"n_remain", s.num_remaining},
                                           {"n_decoded", s.num_decoded}}));
      if (keep_text_) {
        slot.set("prompt", s.prompt);
        slot.set("generated", s.generated);
      }
    }
    out.push_back(std::move(slot));
  }
  return out;
}

}  // namespace mlxcel::serve

// Which running requests the clients see in which slot. The engine has rows, not slots: a slot is
// the place of a request in GET /slots and in "id_slot".
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/json.h"

namespace mlxcel::serve {

/// Thread-safe.
class SlotTable {
 public:
  struct State {
    uint64_t task_id = 0;
    bool busy = false, used = false;  // used: ran at least once, so `params` means something
    int32_t num_prompt = 0, num_processed = 0, num_cached = 0;  // tokens
    int32_t num_decoded = 0, num_remaining = -1;                // -1 = until the context is full
    bool has_new_line = false;
    Json params;
    std::string prompt, generated;  // kept only with `keep_text`
  };

  /// `keep_text`: GET /slots shows prompts and answers (LLAMA_SERVER_SLOTS_DEBUG).
  explicit SlotTable(int32_t num_slots, bool keep_text = false);

  /// Binds a request to slot `preferred` when it is free, else to the lowest free one. -1 when all
  /// are busy. `state.busy` and `state.used` are set here.
  int32_t acquire(int32_t preferred, State state);
  void progress(int32_t slot, int32_t num_processed);
  void decoded(int32_t slot, int32_t num_decoded, int32_t num_remaining, bool has_new_line,
               std::string_view text);
  void release(int32_t slot);

  int32_t num_slots() const { return static_cast<int32_t>(states_.size()); }
  int32_t num_busy() const;
  bool keeps_text() const { return keep_text_; }
  /// The body of GET /slots.
  Json json(int32_t context_tokens) const;

 private:
  mutable std::mutex mutex_;  // guards states_
  std::vector<State> states_;
  bool keep_text_;
};

}  // namespace mlxcel::serve

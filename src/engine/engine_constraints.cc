// Grammars of rows: masks beside the forward, and text that needs no forward of its own.
#include <fmt/core.h>

#include <algorithm>

#include "engine/engine_core.h"

namespace mlxcel::engine {
namespace {

// Forced tokens of one step. A longer run continues in the next one.
constexpr int32_t kMaxForced = 64;

}  // namespace

// While the forward runs: the masks of the rows that will be sampled. A failure is its row's alone.
void EngineCore::prepare_masks(const std::vector<PlannedRow>& rows) {
  for (const PlannedRow& r : rows) {
    Sequence& s = *r.sequence;
    const bool sampled = s.num_remaining() == r.num_tokens;
    if (!s.constraint || s.ended || s.mask_ready || s.mask_error || !sampled) continue;
    try {
      if (!s.constraint->active()) continue;
      s.constraint->fill_mask(s.mask);
      s.mask_ready = true;
    } catch (const Error& e) {
      s.mask_error = e;
    } catch (const std::exception& e) {
      s.mask_error = Error(Code::Internal, fmt::format("the grammar failed: {}", e.what()));
    }
  }
}

// Moves the row's constraint over a sampled token. False when the row has failed.
bool EngineCore::constrain(const SequencePtr& s, TokenId id) {
  s->mask_ready = false;
  try {
    if (s->constraint->accept(id)) return true;
    fail(*s, Error(Code::Internal, fmt::format("the grammar does not allow token {}", id)));
  } catch (const Error& e) {
    fail(*s, e);
  }
  return false;
}

// Takes over what must follow. The next forward computes all of it at once.
void EngineCore::jump_ahead(const SequencePtr& s) {
  const Request& request = s->request;
  const SamplingParams& p = request.sampling;
  if (!request.jump_ahead || p.want_logprob || p.num_logprobs > 0 || !s->forced.empty()) return;
  const auto size = static_cast<int32_t>(s->tokens.size());
  const int32_t room = std::min(
      {kMaxForced, s->limit_tokens - size - 1, resolved_.step_tokens - s->num_remaining()});
  if (room <= 0) return;
  const std::span<const TokenId> forced = s->constraint->forced();
  const std::vector<TokenId> ids(
      forced.begin(), forced.begin() + std::min<std::ptrdiff_t>(room, std::ssize(forced)));
  for (const TokenId id : ids) {
    if (std::ranges::count(request.stop_ids, id) > 0 || !s->constraint->accept(id)) return;
    s->tokens.push_back(id);
    ++s->num_generated;
    SampledToken token;
    token.id = id;
    deliveries_.push_back({.sequence = s, .token = std::move(token), .finish = {}});
    if (s->constraint->finished()) {
      deliveries_.back().finish = Finish::Stop;
      retire(s);
      return;
    }
  }
}

}  // namespace mlxcel::engine

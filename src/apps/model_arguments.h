// Which model a command works on, and how it samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/sampler.h"
#include "io/hub.h"

namespace mlxcel::apps {

/// Which model, and where it may come from.
struct ModelArguments {
  std::string model;  // path, owner/name or a bare name
  io::HubOptions hub;
};

/// Sampling flags that were given; what was not given keeps the front end's default
/// (engine.md 7.8).
struct SamplingFlags {
  std::optional<float> temperature, top_p, min_p, typical_p, top_n_sigma;
  std::optional<float> repetition_penalty, frequency_penalty, presence_penalty;
  std::optional<float> dry_multiplier, dry_base, xtc_probability, xtc_threshold;
  std::optional<float> mirostat_lr, mirostat_ent, dynatemp_range, dynatemp_exp;
  std::optional<int32_t> top_k, repeat_last_n, dry_allowed_length, dry_penalty_last_n, mirostat;
  std::optional<std::string> dry_sequence_breakers;  // comma-separated; "none" = no breaker
  std::optional<int64_t> seed;                       // -1 = random
  bool p_less = false;
  /// `base` with the given flags put over it.
  engine::SamplingParams over(engine::SamplingParams base) const;
};

}  // namespace mlxcel::apps

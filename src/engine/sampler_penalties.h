// The part of the chain that changes logits by token id: bias, repetition, DRY, frequency and
// presence (engine.md 7.1 steps 1-4).
#pragma once

#include <span>

#include "engine/sampler.h"

namespace mlxcel::engine::sampling {

/// Adds `logit_bias` (the sum of repeated entries; -inf wins over anything), forbids `eos_ids` when
/// `ignore_eos`, and forbids every token whose bit in `mask` is 0 (empty = all allowed). Ids
/// outside the row are ignored. Throws InvalidArgument when the mask is shorter than the row.
void apply_bias(std::span<float> logits, const SamplingParams& params,
                std::span<const TokenId> eos_ids, std::span<const uint32_t> mask);

/// Repetition penalty (Keskar et al. 2019, CTRL): each distinct token of the last `repeat_last_n`
/// tokens of `history`: l > 0 ? l / r : l * r.
void apply_repetition(std::span<float> logits, const SamplingParams& params,
                      std::span<const TokenId> history);

/// l -= frequency * count + (count > 0 ? presence : 0), counted over the same window.
void apply_frequency(std::span<float> logits, const SamplingParams& params,
                     std::span<const TokenId> history);

/// DRY: a token that would continue a repetition of length n >= allowed_length loses
/// multiplier * base^(n - allowed_length). Linear in the window. See engine.md 7.3.
void apply_dry(std::span<float> logits, const SamplingParams& params, const SamplerContext& context,
               std::span<const TokenId> history);

}  // namespace mlxcel::engine::sampling

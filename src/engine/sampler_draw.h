// The last step: from surviving candidates to one token (engine.md 7.1 step 6, 7.5, 7.6).
#pragma once

#include <span>
#include <vector>

#include "engine/sampler_row.h"

namespace mlxcel::engine::sampling {

/// The next uniform number in [0, 1) of the sequence.
double next_uniform(SamplerState& state);

/// Index drawn in proportion to the weights, in the order given.
size_t draw(const std::vector<Candidate>& candidates, SamplerState& state);

/// Mirostat (Basu et al. 2021), version 1 or 2, on a row whose logits are already divided by the
/// temperature. Leaves the truncated candidates, weighed, in `candidates`, returns the index drawn
/// and moves state.mirostat_mu.
size_t draw_mirostat(std::span<const float> logits, float max, const SamplingParams& params,
                     SamplerState& state, std::span<float> weights,
                     std::vector<Candidate>& candidates);

/// Adaptive-p: reweighs the candidates around a moving target probability, returns the index drawn
/// and updates the moving average. Weights must be set; they become the new distribution.
size_t draw_adaptive(std::vector<Candidate>& candidates, const SamplingParams& params,
                     SamplerState& state);

}  // namespace mlxcel::engine::sampling

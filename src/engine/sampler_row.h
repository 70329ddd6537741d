// Passes over one whole row of logits [V], written so that compilers turn them into SIMD code. The
// order of every sum depends on V alone, so a row gives the same result on every run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampler.h"

namespace mlxcel::engine::sampling {

struct Candidate {
  TokenId id = 0;
  float logit = 0.0F;
  float weight = 0.0F;  // exp(logit - row maximum); proportional to the probability
};

/// Better first: larger logit, then lower id.
inline bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// Largest logit of the row. Throws Internal naming the token when the row holds a NaN, and
/// InvalidArgument when no token is allowed (every logit is -inf).
float checked_max(std::span<const float> logits);

/// With +inf logits only the tokens at +inf can be drawn, all with one weight: they become 0 and
/// the others -inf.
void resolve_infinity(std::span<float> logits);

/// Lowest id of the largest logit.
TokenId argmax(std::span<const float> logits);

/// weights[i] = exp((logits[i] - max) * scale), relative error below 3e-7; returns their sum. The
/// two spans have one length; -inf gives 0.
double exp_row(std::span<const float> logits, float max, float scale, std::span<float> weights);

/// Index of the first i with weights[0] + ... + weights[i] > u * total, never one with weight 0.
size_t draw_index(std::span<const float> weights, double total, double u);

/// The k best tokens, sorted by ranks_before; fewer when fewer are finite. weight is left 0.
void select_top_k(std::span<const float> logits, size_t k, std::vector<Candidate>& out);

/// All tokens with logit >= threshold and > -inf, in id order. weight is left 0.
void select_at_least(std::span<const float> logits, float threshold, std::vector<Candidate>& out);

/// Fills the weights of candidates relative to `max`; returns their sum.
double weigh(std::vector<Candidate>& candidates, float max, float scale = 1.0F);

}  // namespace mlxcel::engine::sampling

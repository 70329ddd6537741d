// Truncation filters (engine.md 7.1 steps 5-6). Those on a row set removed logits to -inf; those on
// candidates erase them. Every filter keeps at least max(1, min_keep) of the best tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampler_row.h"

namespace mlxcel::engine::sampling {

/// Top-n-sigma (Tang et al. 2024): keeps l >= max - n * sigma, sigma = population standard
/// deviation of the finite logits.
void filter_top_n_sigma(std::span<float> logits, float n, size_t min_keep);

/// p-less (Tan et al. 2025): with p = softmax(l / temperature), keeps p >= sum p^2. `weights` [V]
/// is scratch.
void filter_p_less(std::span<float> logits, float max, float temperature, size_t min_keep,
                   std::span<float> weights);

/// Candidates that a top-p filter can keep, weighed: tokens too unlikely to reach mass `p` of the
/// row are left out already. Returns the weight of the whole row. `weights` [V] is scratch.
double select_for_top_p(std::span<const float> logits, float max, float p, size_t min_keep,
                        std::span<float> weights, std::vector<Candidate>& out);

/// Locally typical sampling (Meister et al. 2022): with surprise s = -ln p and entropy H, takes
/// tokens by increasing |s - H| while the mass before them is < mass. Weights must be set.
void filter_typical(std::vector<Candidate>& candidates, float mass, size_t min_keep);

/// Nucleus sampling (Holtzman et al. 2020): best first, while the mass before a token is < p of
/// `total`. Weights must be set.
void filter_top_p(std::vector<Candidate>& candidates, double total, float p, size_t min_keep);

/// Min-p (Nguyen et al. 2024): keeps p >= m * max p. Weights must be set.
void filter_min_p(std::vector<Candidate>& candidates, float m, size_t min_keep);

/// Exclude top choices: of the tokens with p >= threshold removes all but the least likely, sparing
/// the `spared` ids. Does nothing when fewer than two reach the threshold or fewer than `min_keep`
/// would be left. Weights must be set.
void filter_xtc(std::vector<Candidate>& candidates, float threshold, size_t min_keep,
                std::span<const TokenId> spared);

/// The temperature of dynatemp: max(1e-6, lo + (hi - lo) * (H / ln n)^exponent) over n candidates,
/// lo = max(0, t - range), hi = t + range; 1 for a single candidate. Weights must be set.
double dynamic_temperature(const std::vector<Candidate>& candidates, float temperature, float range,
                           float exponent);

}  // namespace mlxcel::engine::sampling

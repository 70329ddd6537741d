#include "engine/sampler_filters.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mlxcel::engine::sampling {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double total_weight(const std::vector<Candidate>& candidates) {
  double total = 0;
  for (const Candidate& c : candidates) total += static_cast<double>(c.weight);
  return total;
}

/// -sum p ln p of the candidates.
double entropy(const std::vector<Candidate>& candidates, double total) {
  double h = 0;
  for (const Candidate& c : candidates) {
    const double p = static_cast<double>(c.weight) / total;
    if (p > 0) h -= p * std::log(p);
  }
  return h;
}

/// The min_keep-th best logit, so that a threshold can be lowered to it.
float logit_of_rank(std::span<const float> logits, size_t rank) {
  std::vector<Candidate> best;
  select_top_k(logits, rank, best);
  return best.empty() ? -kInfinity : best.back().logit;
}

/// Sorts only as much of the front as it takes to reach the mass, then cuts there.
template <class Item, class Before>
void keep_by_mass(std::vector<Item>& candidates, double target, size_t min_keep,
                  const Before& before) {
  const size_t n = candidates.size();
  double cumulative = 0;
  size_t sorted = 0;
  for (size_t chunk = 256; sorted < n; chunk *= 4) {
    const size_t end = std::min(sorted + chunk, n);
    const auto first = candidates.begin() + static_cast<ptrdiff_t>(sorted);
    const auto last = candidates.begin() + static_cast<ptrdiff_t>(end);
    if (end < n) std::nth_element(first, last, candidates.end(), before);
    std::sort(first, last, before);
    for (size_t i = sorted; i < end; ++i) {
      if (i > 0 && i >= min_keep && cumulative >= target) {
        candidates.resize(i);
        return;
      }
      cumulative += static_cast<double>(candidates[i].weight);
    }
    sorted = end;
  }
}

template <class Keep>
void keep_if(std::vector<Candidate>& candidates, size_t min_keep, const Keep& keep) {
  const auto kept = static_cast<size_t>(std::count_if(candidates.begin(), candidates.end(), keep));
  if (kept >= std::max<size_t>(1, min_keep)) {
    std::erase_if(candidates, [&](const Candidate& c) { return !keep(c); });
    return;
  }
  const size_t count = std::min(std::max<size_t>(1, min_keep), candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(count),
                    candidates.end(), ranks_before);
  candidates.resize(count);
}

}  // namespace

void filter_top_n_sigma(std::span<float> logits, float n, size_t min_keep) {
  double sum = 0, count = 0;
  float max = -kInfinity;
  for (const float l : logits) {
    if (!std::isfinite(l)) continue;
    sum += static_cast<double>(l);
    count += 1;
    max = std::max(max, l);
  }
  if (count == 0) return;
  const double mean = sum / count;
  double squares = 0;
  for (const float l : logits) {
    const double d = static_cast<double>(l) - mean;
    if (std::isfinite(l)) squares += d * d;
  }
  double threshold = static_cast<double>(max) - static_cast<double>(n) * std::sqrt(squares / count);
  if (min_keep > 1) {
    threshold = std::min(threshold, static_cast<double>(logit_of_rank(logits, min_keep)));
  }
  for (float& l : logits) l = static_cast<double>(l) >= threshold ? l : -kInfinity;
}

void filter_p_less(std::span<float> logits, float max, float temperature, size_t min_keep,
                   std::span<float> weights) {
  const double total = exp_row(logits, max, 1.0F / temperature, weights);
  double squares = 0;
  for (const float w : weights) squares += static_cast<double>(w) * static_cast<double>(w);
  const double least = squares / total;  // weight of probability sum p^2
  const float floor = min_keep > 1 ? logit_of_rank(logits, min_keep) : max;
  for (size_t i = 0; i < logits.size(); ++i) {
    const bool keep = static_cast<double>(weights[i]) >= least || logits[i] >= floor;
    logits[i] = keep ? logits[i] : -kInfinity;
  }
}

double select_for_top_p(std::span<const float> logits, float max, float p, size_t min_keep,
                        std::span<float> weights, std::vector<Candidate>& out) {
  const double total = exp_row(logits, max, 1.0F, weights);
  if (min_keep > 1) {
    select_at_least(logits, -kInfinity, out);
    for (Candidate& c : out) c.weight = weights[static_cast<size_t>(c.id)];
    return total;
  }
  // All tokens lighter than this weigh less than (1 - p) * total together, so the mass before any
  // of them is above p. Half of it leaves room for rounding.
  const double spare = 1.0 - static_cast<double>(p);
  const auto least = static_cast<float>(0.5 * spare * total / static_cast<double>(logits.size()));
  out.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (weights[i] > 0 && weights[i] >= least) {
      out.push_back({static_cast<TokenId>(i), logits[i], weights[i]});
    }
  }
  return total;
}

void filter_typical(std::vector<Candidate>& candidates, float mass, size_t min_keep) {
  struct Scored : Candidate {
    double distance = 0;
  };
  const double total = total_weight(candidates);
  const double h = entropy(candidates, total);
  std::vector<Scored> scored;
  scored.reserve(candidates.size());
  for (const Candidate& c : candidates) {
    scored.push_back({c, std::abs(-std::log(static_cast<double>(c.weight) / total) - h)});
  }
  keep_by_mass(scored, static_cast<double>(mass) * total, min_keep,
               [](const Scored& a, const Scored& b) {
                 return a.distance != b.distance ? a.distance < b.distance : ranks_before(a, b);
               });
  candidates.assign(scored.begin(), scored.end());
}

void filter_top_p(std::vector<Candidate>& candidates, double total, float p, size_t min_keep) {
  keep_by_mass(candidates, static_cast<double>(p) * total, min_keep, ranks_before);
}

void filter_min_p(std::vector<Candidate>& candidates, float m, size_t min_keep) {
  float best = 0;
  for (const Candidate& c : candidates) best = std::max(best, c.weight);
  const double least = static_cast<double>(m) * static_cast<double>(best);
  keep_if(candidates, min_keep,
          [&](const Candidate& c) { return static_cast<double>(c.weight) >= least; });
}

void filter_xtc(std::vector<Candidate>& candidates, float threshold, size_t min_keep,
                std::span<const TokenId> spared) {
  const double least = static_cast<double>(threshold) * total_weight(candidates);
  const auto above = [&](const Candidate& c) { return static_cast<double>(c.weight) >= least; };
  const Candidate* last = nullptr;
  for (const Candidate& c : candidates) {
    if (above(c) && (last == nullptr || ranks_before(*last, c))) last = &c;
  }
  if (last == nullptr) return;
  const TokenId kept = last->id;
  const auto removed = [&](const Candidate& c) {
    return above(c) && c.id != kept &&
           std::find(spared.begin(), spared.end(), c.id) == spared.end();
  };
  const auto count =
      static_cast<size_t>(std::count_if(candidates.begin(), candidates.end(), removed));
  if (candidates.size() - count < min_keep) return;
  std::erase_if(candidates, removed);
}

double dynamic_temperature(const std::vector<Candidate>& candidates, float temperature, float range,
                           float exponent) {
  if (candidates.size() <= 1) return 1.0;
  const double low = std::max(0.0, static_cast<double>(temperature) - static_cast<double>(range));
  const double high = static_cast<double>(temperature) + static_cast<double>(range);
  const double h = entropy(candidates, total_weight(candidates));
  const double norm = std::clamp(h / std::log(static_cast<double>(candidates.size())), 0.0, 1.0);
  const double t = low + (high - low) * std::pow(norm, static_cast<double>(exponent));
  return std::max(1e-6, t);
}

}  // namespace mlxcel::engine::sampling

#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "engine/sampler_draw.h"
#include "engine/sampler_filters.h"
#include "engine/sampler_penalties.h"
#include "engine/sampler_row.h"

namespace mlxcel::engine {

namespace {

using sampling::Candidate;
using Report = std::vector<std::pair<TokenId, float>>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Buffers of one thread, so that a draw allocates nothing after the first.
struct Scratch {
  std::vector<float> weights;
  std::vector<Candidate> candidates;
};

Scratch& scratch() {
  thread_local Scratch buffers;
  return buffers;
}

size_t wanted(const SamplingParams& params, size_t vocab) {
  return std::min(static_cast<size_t>(std::max(params.num_logprobs, 0)), vocab);
}

/// Log-probabilities of a whole row: fills `top` and returns ln of the weight sum, so that
/// logits[id] - max - result is any token's log-probability.
double report_row(std::span<const float> logits, float max, size_t count, Report& top) {
  Scratch& s = scratch();
  s.weights.resize(logits.size());
  const double log_total = std::log(sampling::exp_row(logits, max, 1.0F, s.weights));
  sampling::select_top_k(logits, count, s.candidates);
  for (const Candidate& c : s.candidates) {
    top.emplace_back(c.id, static_cast<float>(static_cast<double>(c.logit) -
                                              static_cast<double>(max) - log_total));
  }
  return log_total;
}

/// The final distribution: survivors by descending probability, then removed tokens at -inf.
void report_candidates(std::vector<Candidate> candidates, std::span<const float> logits,
                       size_t count, Report& top) {
  double total = 0;
  for (const Candidate& c : candidates) total += static_cast<double>(c.weight);
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : sampling::ranks_before(a, b);
  });
  for (size_t i = 0; i < std::min(count, candidates.size()); ++i) {
    top.emplace_back(
        candidates[i].id,
        static_cast<float>(std::log(static_cast<double>(candidates[i].weight) / total)));
  }
  if (top.size() >= count) return;
  std::vector<bool> known(logits.size());
  for (const auto& [id, logprob] : top) known[static_cast<size_t>(id)] = true;
  const auto add_removed = [&](TokenId id) {
    if (top.size() < count && !known[static_cast<size_t>(id)]) {
      known[static_cast<size_t>(id)] = true;
      top.emplace_back(id, -kInfinity);
    }
  };
  std::vector<Candidate> best;
  sampling::select_top_k(logits, count, best);
  for (const Candidate& c : best) add_removed(c.id);
  for (size_t id = 0; id < logits.size() && top.size() < count; ++id) {
    add_removed(static_cast<TokenId>(id));
  }
}

bool xtc_active(const SamplingParams& p) {
  return p.xtc_probability > 0 && p.xtc_threshold <= 0.5F;
}
bool typical_active(const SamplingParams& p) { return p.typical_p > 0 && p.typical_p < 1; }

/// True when nothing but the temperature shapes the draw, so that no candidate list is needed.
bool plain(const SamplingParams& p, size_t vocab) {
  const bool top_k = p.top_k > 0 && static_cast<size_t>(p.top_k) < vocab;
  const bool reports = p.post_sampling_probs && (p.want_logprob || p.num_logprobs > 0);
  return !top_k && p.top_p >= 1 && p.min_p <= 0 && !typical_active(p) && !xtc_active(p) &&
         p.dynatemp_range <= 0 && p.adaptive_target < 0 && !reports;
}

/// Steps 5 and 6 up to the temperature: leaves the survivors, weighed, in scratch().candidates.
void run_chain(std::span<float> logits, float max, const SamplingParams& p,
               const SamplerContext& context, SamplerState& state) {
  Scratch& s = scratch();
  auto& candidates = s.candidates;
  const auto min_keep = static_cast<size_t>(std::max(p.min_keep, 0));
  const size_t vocab = logits.size();
  const bool by_k = p.top_k > 0 && static_cast<size_t>(p.top_k) < vocab;
  const bool by_p = p.top_p < 1;
  double total = 0;
  if (by_k) {
    sampling::select_top_k(logits, std::max(static_cast<size_t>(p.top_k), min_keep), candidates);
  } else if (by_p && !typical_active(p)) {
    total = sampling::select_for_top_p(logits, max, p.top_p, min_keep, s.weights, candidates);
  } else if (p.min_p > 0 && min_keep <= 1 && !by_p && !typical_active(p)) {
    // min-p comes first here, so most of the row need not become candidates. The margin covers the
    // rounding of the logarithm; the filter itself decides below.
    const float floor = max + std::log(p.min_p);
    sampling::select_at_least(logits, floor - 1e-4F * (1 + std::abs(floor)), candidates);
  } else {
    sampling::select_at_least(logits, -kInfinity, candidates);
  }
  if (total == 0) total = sampling::weigh(candidates, max);
  if (typical_active(p)) {
    sampling::filter_typical(candidates, p.typical_p, min_keep);
    total = sampling::weigh(candidates, max);
  }
  if (by_p) sampling::filter_top_p(candidates, total, p.top_p, min_keep);
  if (p.min_p > 0) sampling::filter_min_p(candidates, p.min_p, min_keep);
  if (xtc_active(p) && sampling::next_uniform(state) < static_cast<double>(p.xtc_probability)) {
    sampling::filter_xtc(candidates, p.xtc_threshold, min_keep, context.xtc_protected);
  }
}

/// Divides the survivors' logits by the temperature, which may depend on their entropy.
void apply_temperature(std::vector<Candidate>& candidates, const SamplingParams& p) {
  float best = -kInfinity;
  for (const Candidate& c : candidates) best = std::max(best, c.logit);
  double t = static_cast<double>(p.temperature);
  if (p.dynatemp_range > 0) {
    t = sampling::dynamic_temperature(candidates, p.temperature, p.dynatemp_range,
                                      p.dynatemp_exponent);
  }
  sampling::weigh(candidates, best, static_cast<float>(std::min(1 / t, 1e30)));
}

SampledToken chosen_from(const std::vector<Candidate>& candidates, size_t index,
                         std::span<const float> logits, const SamplingParams& p) {
  SampledToken out;
  out.id = candidates[index].id;
  if (!p.post_sampling_probs) return out;
  double total = 0;
  for (const Candidate& c : candidates) total += static_cast<double>(c.weight);
  out.logprob = static_cast<float>(std::log(static_cast<double>(candidates[index].weight) / total));
  report_candidates(candidates, logits, wanted(p, logits.size()), out.top);
  return out;
}

SampledToken draw_token(std::span<float> logits, const SamplingParams& p,
                        const SamplerContext& context, SamplerState& state) {
  Scratch& s = scratch();
  float max = sampling::checked_max(logits);
  if (max == kInfinity) {
    sampling::resolve_infinity(logits);
    max = 0;
  }
  if (p.temperature <= 0 || p.top_k == 1) {
    s.candidates.assign(1, {sampling::argmax(logits), max, 1.0F});
    return chosen_from(s.candidates, 0, logits, p);
  }
  s.weights.resize(logits.size());
  const float scale = std::min(1.0F / p.temperature, 1e30F);
  if (p.mirostat != 0) {
    for (float& l : logits) l = (l - max) * scale;
    const size_t i = sampling::draw_mirostat(logits, 0.0F, p, state, s.weights, s.candidates);
    return chosen_from(s.candidates, i, logits, p);
  }
  const auto min_keep = static_cast<size_t>(std::max(p.min_keep, 0));
  if (p.top_n_sigma > 0) sampling::filter_top_n_sigma(logits, p.top_n_sigma, min_keep);
  if (p.p_less) sampling::filter_p_less(logits, max, p.temperature, min_keep, s.weights);
  if (plain(p, logits.size())) {
    const double total = sampling::exp_row(logits, max, scale, s.weights);
    SampledToken out;
    out.id =
        static_cast<TokenId>(sampling::draw_index(s.weights, total, sampling::next_uniform(state)));
    return out;
  }
  run_chain(logits, max, p, context, state);
  apply_temperature(s.candidates, p);
  const size_t i = p.adaptive_target >= 0 ? sampling::draw_adaptive(s.candidates, p, state)
                                          : sampling::draw(s.candidates, state);
  return chosen_from(s.candidates, i, logits, p);
}

}  // namespace

bool takes_the_best(const SamplingParams& p) {
  const bool greedy = p.temperature <= 0 || p.top_k == 1;
  const bool penalties = p.repetition_penalty != 1.0F || p.frequency_penalty != 0.0F ||
                         p.presence_penalty != 0.0F || p.dry_multiplier != 0.0F;
  const bool reports = p.want_logprob || p.num_logprobs > 0;
  return greedy && !penalties && !reports && p.mirostat == 0 && !p.ignore_eos &&
         p.logit_bias.empty();
}

SampledToken sample(std::span<float> logits, const SamplingParams& params,
                    const SamplerContext& context, SamplerState& state,
                    std::span<const TokenId> history, int32_t num_prompt,
                    std::span<const uint32_t> mask) {
  MLXCEL_CHECK(!logits.empty(), "sampling needs at least one logit");
  MLXCEL_CHECK(num_prompt >= 0 && static_cast<size_t>(num_prompt) <= history.size(),
               "the prompt is longer than the history");
  Report top;
  std::vector<float> raw;
  double log_total = 0;
  float raw_max = 0;
  const bool before =
      !params.post_sampling_probs && (params.want_logprob || params.num_logprobs > 0);
  if (before) {
    raw.assign(logits.begin(), logits.end());
    raw_max = sampling::checked_max(raw);
    if (raw_max == kInfinity) {
      sampling::resolve_infinity(raw);
      raw_max = 0;
    }
    log_total = report_row(raw, raw_max, wanted(params, raw.size()), top);
  }
  sampling::apply_bias(logits, params, context.eos_ids, mask);
  if (params.mirostat == 0) {
    sampling::apply_repetition(logits, params, history);
    sampling::apply_dry(logits, params, context, history);
    sampling::apply_frequency(logits, params, history);
  }
  SampledToken out = draw_token(logits, params, context, state);
  if (before) {
    out.top = std::move(top);
    out.logprob = static_cast<float>(static_cast<double>(raw[static_cast<size_t>(out.id)]) -
                                     static_cast<double>(raw_max) - log_total);
  }
  return out;
}

}  // namespace mlxcel::engine

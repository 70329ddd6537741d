#include "engine/sampler_penalties.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace mlxcel::engine::sampling {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::span<const TokenId> window(std::span<const TokenId> history, int32_t last_n) {
  if (last_n < 0) return history;
  return history.last(std::min(history.size(), static_cast<size_t>(last_n)));
}

bool in_row(TokenId id, std::span<const float> logits) {
  return id >= 0 && static_cast<size_t>(id) < logits.size();
}

void add_bias(float& logit, float bias) {
  // -inf + inf would be a NaN; forbidding wins.
  logit = logit == -kInfinity || bias == -kInfinity ? -kInfinity : logit + bias;
}

std::unordered_map<TokenId, int32_t> count_tokens(std::span<const TokenId> tokens) {
  std::unordered_map<TokenId, int32_t> counts;
  counts.reserve(std::min<size_t>(tokens.size(), 4096));
  for (const TokenId id : tokens) ++counts[id];
  return counts;
}

/// How many tokens at the end of `tokens` follow the last sequence breaker. Longer matches would
/// cross it.
size_t match_limit(std::span<const TokenId> tokens, const SamplerContext& context) {
  const size_t n = tokens.size();
  for (size_t back = 0; back < n; ++back) {  // head at n - 1 - back
    const auto heads = context.dry_breakers.find(tokens[n - 1 - back]);
    if (heads == context.dry_breakers.end()) continue;
    ptrdiff_t longest = -1;
    for (const std::vector<TokenId>& tail : heads->second) {
      if (tail.size() > back) continue;
      const auto after_head = tokens.subspan(n - back, tail.size());
      if (std::equal(tail.begin(), tail.end(), after_head.begin())) {
        longest = std::max(longest, static_cast<ptrdiff_t>(tail.size()));
      }
    }
    if (longest >= 0) return back - static_cast<size_t>(longest);
  }
  return n;
}

/// match[i]: length of the longest common suffix of the whole text and its first i + 1 tokens
/// (Gusfield's Z algorithm, run from the end).
std::vector<size_t> suffix_matches(std::span<const TokenId> tokens) {
  const size_t n = tokens.size();
  const auto at = [&](size_t i) { return tokens[n - 1 - i]; };  // the reversed text
  std::vector<size_t> z(n, 0), match(n, 0);
  for (size_t i = 1, left = 0, right = 0; i < n; ++i) {
    if (i < right) z[i] = std::min(right - i, z[i - left]);
    while (i + z[i] < n && at(z[i]) == at(i + z[i])) ++z[i];
    if (i + z[i] > right) {
      left = i;
      right = i + z[i];
    }
    match[n - 1 - i] = z[i];
  }
  return match;
}

}  // namespace

void apply_bias(std::span<float> logits, const SamplingParams& params,
                std::span<const TokenId> eos_ids, std::span<const uint32_t> mask) {
  for (const auto& [id, bias] : params.logit_bias) {
    if (in_row(id, logits)) add_bias(logits[static_cast<size_t>(id)], bias);
  }
  if (params.ignore_eos) {
    for (const TokenId id : eos_ids) {
      if (in_row(id, logits)) logits[static_cast<size_t>(id)] = -kInfinity;
    }
  }
  if (mask.empty()) return;
  if (mask.size() < (logits.size() + 31) / 32) {
    throw Error(Code::InvalidArgument, "the token mask has " + std::to_string(mask.size()) +
                                           " words, too few for " + std::to_string(logits.size()) +
                                           " logits");
  }
  for (size_t begin = 0; begin < logits.size(); begin += 32) {
    const uint32_t word = mask[begin / 32];
    if (word == UINT32_MAX) continue;
    const size_t end = std::min(begin + 32, logits.size());
    for (size_t i = begin; i < end; ++i) {
      if ((word >> (i - begin) & 1U) == 0) logits[i] = -kInfinity;
    }
  }
}

void apply_repetition(std::span<float> logits, const SamplingParams& params,
                      std::span<const TokenId> history) {
  const float r = params.repetition_penalty;
  if (r == 1.0F || params.repeat_last_n == 0) return;
  for (const auto& [id, count] : count_tokens(window(history, params.repeat_last_n))) {
    if (!in_row(id, logits)) continue;
    float& l = logits[static_cast<size_t>(id)];
    l = l > 0 ? l / r : l * r;
  }
}

void apply_frequency(std::span<float> logits, const SamplingParams& params,
                     std::span<const TokenId> history) {
  const float f = params.frequency_penalty, c = params.presence_penalty;
  if ((f == 0.0F && c == 0.0F) || params.repeat_last_n == 0) return;
  for (const auto& [id, count] : count_tokens(window(history, params.repeat_last_n))) {
    if (in_row(id, logits)) logits[static_cast<size_t>(id)] -= f * static_cast<float>(count) + c;
  }
}

void apply_dry(std::span<float> logits, const SamplingParams& params, const SamplerContext& context,
               std::span<const TokenId> history) {
  if (params.dry_multiplier <= 0 || params.dry_base < 1 || params.dry_penalty_last_n == 0) return;
  const auto tokens = window(history, params.dry_penalty_last_n);
  const auto allowed = static_cast<size_t>(std::max(params.dry_allowed_length, 1));
  const size_t limit = match_limit(tokens, context);
  if (tokens.size() < 2 || limit < allowed) return;

  const std::vector<size_t> match = suffix_matches(tokens);
  std::unordered_map<TokenId, size_t> longest;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const size_t length = std::min(match[i], limit);
    if (length < allowed) continue;
    size_t& best = longest[tokens[i + 1]];
    best = std::max(best, length);
  }
  // base^exponent must stay below the largest float.
  const double log_base = std::log(static_cast<double>(params.dry_base));
  const double cap = log_base > 0 ? 88.72284 / log_base : std::numeric_limits<double>::infinity();
  for (const auto& [id, length] : longest) {
    if (!in_row(id, logits)) continue;
    const double exponent = std::min(static_cast<double>(length - allowed), cap);
    const double penalty = static_cast<double>(params.dry_multiplier) *
                           std::pow(static_cast<double>(params.dry_base), exponent);
    float& l = logits[static_cast<size_t>(id)];
    if (l == -kInfinity) continue;
    // The strongest penalty still ranks above a forbidden token.
    l = static_cast<float>(std::max(static_cast<double>(l) - penalty,
                                    static_cast<double>(std::numeric_limits<float>::lowest())));
  }
}

}  // namespace mlxcel::engine::sampling

#include "reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace mlxcel::engine::reference {

namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();
using Row = std::vector<double>;

bool alive(double l) { return l > kNone; }

size_t count_alive(const Row& l) {
  return static_cast<size_t>(std::count_if(l.begin(), l.end(), alive));
}

/// Ids by a key, smallest first, ties by id; only living tokens.
std::vector<size_t> order(const Row& l, const Row& key) {
  std::vector<size_t> ids;
  for (size_t i = 0; i < l.size(); ++i) {
    if (alive(l[i])) ids.push_back(i);
  }
  std::stable_sort(ids.begin(), ids.end(), [&](size_t a, size_t b) { return key[a] < key[b]; });
  return ids;
}

Row negated(const Row& l) {
  Row out(l.size());
  std::transform(l.begin(), l.end(), out.begin(), [](double x) { return -x; });
  return out;
}

void keep_first(Row& l, const std::vector<size_t>& ids, size_t count) {
  for (size_t i = count; i < ids.size(); ++i) l[ids[i]] = kNone;
}

void keep_mass(Row& l, const std::vector<size_t>& ids, double mass, size_t min_keep,
               Distribution& d) {
  const Row p = softmax(l);
  double cumulative = 0;
  size_t keep = 0;
  for (; keep < ids.size(); ++keep) {
    if (keep > 0) d.margin = std::min(d.margin, std::abs(cumulative - mass));
    if (keep > 0 && keep >= min_keep && cumulative >= mass) break;
    cumulative += p[ids[keep]];
  }
  keep_first(l, ids, keep);
}

/// Keeps tokens whose value reaches the threshold, and at least min_keep of the best.
void keep_reaching(Row& l, const Row& value, double threshold, size_t min_keep, Distribution& d) {
  const auto ids = order(l, negated(l));
  size_t keep = 0;
  for (; keep < ids.size(); ++keep) {
    if (value[ids[keep]] != threshold) {
      d.margin = std::min(d.margin, std::abs(value[ids[keep]] - threshold));
    }
    if (value[ids[keep]] < threshold && keep >= std::max<size_t>(1, min_keep)) break;
  }
  keep_first(l, ids, keep);
}

double entropy(const Row& p) {
  double h = 0;
  for (const double x : p) h -= x > 0 ? x * std::log(x) : 0;
  return h;
}

void top_n_sigma(Row& l, double n, size_t min_keep, Distribution& d) {
  double sum = 0, squares = 0, count = 0, max = kNone;
  for (const double x : l) {
    if (!alive(x)) continue;
    sum += x;
    squares += x * x;
    count += 1;
    max = std::max(max, x);
  }
  const double sigma = std::sqrt(std::max(0.0, squares / count - sum / count * (sum / count)));
  keep_reaching(l, Row(l), max - n * sigma, min_keep, d);
}

void p_less(Row& l, double temperature, size_t min_keep, Distribution& d) {
  Row tempered(l);
  for (double& x : tempered) x /= temperature;
  const Row p = softmax(tempered);
  double collision = 0;
  for (const double x : p) collision += x * x;
  keep_reaching(l, p, collision, min_keep, d);
}

void typical(Row& l, double mass, size_t min_keep, Distribution& d) {
  const Row p = softmax(l);
  const double h = entropy(p);
  Row distance(l.size());
  for (size_t i = 0; i < l.size(); ++i) distance[i] = std::abs(-std::log(p[i]) - h);
  const auto ids = order(l, distance);
  keep_mass(l, ids, mass, min_keep, d);
}

void xtc(Row& l, double threshold, size_t min_keep, std::span<const TokenId> spared,
         Distribution& d) {
  const Row p = softmax(l);
  std::vector<size_t> above;
  for (const size_t id : order(l, negated(l))) {
    d.margin = std::min(d.margin, std::abs(p[id] - threshold));
    if (p[id] >= threshold) above.push_back(id);
  }
  if (above.size() < 2) return;
  above.pop_back();
  std::erase_if(above, [&](size_t id) {
    return std::find(spared.begin(), spared.end(), static_cast<TokenId>(id)) != spared.end();
  });
  if (count_alive(l) - above.size() < min_keep) return;
  for (const size_t id : above) l[id] = kNone;
}

double temperature_of(const Row& l, const SamplingParams& params) {
  const double t = static_cast<double>(params.temperature);
  const double range = static_cast<double>(params.dynatemp_range);
  if (range <= 0) return t;
  const size_t n = count_alive(l);
  if (n <= 1) return 1;
  const double low = std::max(0.0, t - range), high = t + range;
  const double norm = entropy(softmax(l)) / std::log(static_cast<double>(n));
  return std::max(
      1e-6, low + (high - low) * std::pow(norm, static_cast<double>(params.dynatemp_exponent)));
}

std::span<const TokenId> tail(std::span<const TokenId> history, int32_t n) {
  return n < 0 ? history : history.last(std::min(history.size(), static_cast<size_t>(n)));
}

/// Number of tokens at the end of `h` that no breaker ends after.
size_t breaker_free(std::span<const TokenId> h, const SamplerContext& context) {
  size_t start = 0;
  for (size_t head = 0; head < h.size(); ++head) {
    const auto it = context.dry_breakers.find(h[head]);
    if (it == context.dry_breakers.end()) continue;
    for (const auto& t : it->second) {
      if (head + 1 + t.size() > h.size()) continue;
      const auto rest = h.subspan(head + 1, t.size());
      if (std::equal(t.begin(), t.end(), rest.begin()))
        start = std::max(start, head + 1 + t.size());
    }
  }
  return h.size() - start;
}

void dry(Row& l, const SamplingParams& params, const SamplerContext& context,
         std::span<const TokenId> history) {
  if (params.dry_multiplier <= 0 || params.dry_base < 1 || params.dry_penalty_last_n == 0) return;
  const auto h = tail(history, params.dry_penalty_last_n);
  const size_t limit = breaker_free(h, context);
  std::map<TokenId, size_t> longest;
  for (size_t end = 0; end + 1 < h.size(); ++end) {
    size_t length = 0;
    while (length <= end && length < limit && h[end - length] == h[h.size() - 1 - length]) ++length;
    if (length >= static_cast<size_t>(std::max(1, params.dry_allowed_length))) {
      longest[h[end + 1]] = std::max(longest[h[end + 1]], length);
    }
  }
  const double base = static_cast<double>(params.dry_base);
  for (const auto& [id, length] : longest) {
    const double power =
        std::min(static_cast<double>(length) - std::max(1, params.dry_allowed_length),
                 base > 1 ? 88.72284 / std::log(base) : 1e9);
    l[static_cast<size_t>(id)] -=
        static_cast<double>(params.dry_multiplier) * std::pow(base, power);
  }
}

}  // namespace

std::vector<double> softmax(const std::vector<double>& logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p(logits.size());
  double total = 0;
  for (size_t i = 0; i < p.size(); ++i) total += p[i] = std::exp(logits[i] - max);
  for (double& x : p) x /= total;
  return p;
}

std::vector<double> penalized(std::span<const float> logits, const SamplingParams& params,
                              const SamplerContext& context, std::span<const TokenId> history) {
  Row l(logits.begin(), logits.end());
  for (const auto& [id, bias] : params.logit_bias)
    l[static_cast<size_t>(id)] += static_cast<double>(bias);
  if (params.ignore_eos) {
    for (const TokenId id : context.eos_ids) l[static_cast<size_t>(id)] = kNone;
  }
  std::map<TokenId, double> counts;
  for (const TokenId id : tail(history, params.repeat_last_n)) counts[id] += 1;
  for (const auto& [id, count] : counts) {
    double& x = l[static_cast<size_t>(id)];
    const double r = static_cast<double>(params.repetition_penalty);
    x = x > 0 ? x / r : x * r;
  }
  dry(l, params, context, history);
  for (const auto& [id, count] : counts) {
    l[static_cast<size_t>(id)] -= static_cast<double>(params.frequency_penalty) * count +
                                  static_cast<double>(params.presence_penalty);
  }
  return l;
}

Distribution chain(std::span<const float> logits, const SamplingParams& params,
                   const SamplerContext& context, std::span<const TokenId> history, bool xtc_gate) {
  Distribution d;
  Row l = penalized(logits, params, context, history);
  const auto min_keep = static_cast<size_t>(params.min_keep);
  if (params.top_n_sigma > 0) top_n_sigma(l, static_cast<double>(params.top_n_sigma), min_keep, d);
  if (params.p_less) p_less(l, static_cast<double>(params.temperature), min_keep, d);
  if (params.top_k > 0) {
    keep_first(l, order(l, negated(l)), std::max(static_cast<size_t>(params.top_k), min_keep));
  }
  if (params.typical_p > 0 && params.typical_p < 1)
    typical(l, static_cast<double>(params.typical_p), min_keep, d);
  if (params.top_p < 1)
    keep_mass(l, order(l, negated(l)), static_cast<double>(params.top_p), min_keep, d);
  if (params.min_p > 0) {
    const Row p = softmax(l);
    const double best = *std::max_element(p.begin(), p.end());
    keep_reaching(l, p, static_cast<double>(params.min_p) * best, min_keep, d);
  }
  if (xtc_gate)
    xtc(l, static_cast<double>(params.xtc_threshold), min_keep, context.xtc_protected, d);
  const double t = temperature_of(l, params);
  for (double& x : l) x /= t;
  d.p = softmax(l);
  return d;
}

}  // namespace mlxcel::engine::reference

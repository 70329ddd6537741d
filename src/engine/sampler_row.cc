#include "engine/sampler_row.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace mlxcel::engine::sampling {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kLanes = 16;
constexpr size_t kBlock = 256;  // floats summed in float before they are added up in double

/// exp(x) for x <= 0: 2^n times a degree-6 polynomial on [-ln2/2, ln2/2] (Cephes' single precision
/// coefficients). Branch-free; results below 2^-125 are 0.
inline float exp_nonpositive(float x) {
  constexpr float kLowest = -86.6F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float live = x < kLowest ? 0.0F : 1.0F;
  const float clamped = x < kLowest ? kLowest : x;
  const float shifted = clamped * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float y = p * (r * r) + r + 1.0F;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  return live * std::bit_cast<float>(std::bit_cast<int32_t>(y) + (exponent << 23));
}

float block_max(const float* x, size_t n) {
  std::array<float, kLanes> best;
  best.fill(-kInfinity);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) best[j] = x[i + j] > best[j] ? x[i + j] : best[j];
  }
  float max = -kInfinity;
  for (; i < n; ++i) max = x[i] > max ? x[i] : max;
  for (const float b : best) max = b > max ? b : max;
  return max;
}

}  // namespace

float checked_max(std::span<const float> logits) {
  std::array<uint32_t, kLanes> nans{};
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) nans[j] |= logits[i + j] != logits[i + j] ? 1U : 0U;
  }
  bool bad = std::any_of(nans.begin(), nans.end(), [](uint32_t n) { return n != 0; });
  for (; i < logits.size(); ++i) bad |= std::isnan(logits[i]);
  if (bad) {
    const auto at =
        std::find_if(logits.begin(), logits.end(), [](float x) { return std::isnan(x); });
    throw Error(Code::Internal,
                "the model's logit for token " + std::to_string(at - logits.begin()) +
                    " is not a number, so no token can be sampled; the checkpoint is damaged or "
                    "its numbers overflow in this precision");
  }
  const float max = block_max(logits.data(), logits.size());
  if (max == -kInfinity) {
    throw Error(Code::InvalidArgument,
                "no token may be sampled: the logit bias and the grammar together forbid all " +
                    std::to_string(logits.size()) + " tokens");
  }
  return max;
}

void resolve_infinity(std::span<float> logits) {
  for (float& x : logits) x = x == kInfinity ? 0.0F : -kInfinity;
}

TokenId argmax(std::span<const float> logits) {
  const float max = block_max(logits.data(), logits.size());
  return static_cast<TokenId>(std::find(logits.begin(), logits.end(), max) - logits.begin());
}

double exp_row(std::span<const float> logits, float max, float scale, std::span<float> weights) {
  double total = 0;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const size_t n = std::min(kBlock, logits.size() - begin);
    const float* in = logits.data() + begin;
    float* out = weights.data() + begin;
    for (size_t i = 0; i < n; ++i) out[i] = exp_nonpositive((in[i] - max) * scale);
    std::array<float, kLanes> sums{};
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (size_t j = 0; j < kLanes; ++j) sums[j] += out[i + j];
    }
    for (; i < n; ++i) sums[0] += out[i];
    for (const float s : sums) total += static_cast<double>(s);
  }
  return total;
}

size_t draw_index(std::span<const float> weights, double total, double u) {
  const double target = u * total;
  double sum = 0;
  size_t last = 0;
  for (size_t begin = 0; begin < weights.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, weights.size());
    double block = 0;
    for (size_t i = begin; i < end; ++i) block += static_cast<double>(weights[i]);
    if (sum + block <= target) {
      if (block > 0) {
        for (size_t i = begin; i < end; ++i) last = weights[i] > 0 ? i : last;
      }
      sum += block;
      continue;
    }
    for (size_t i = begin; i < end; ++i) {
      if (weights[i] <= 0) continue;
      last = i;
      sum += static_cast<double>(weights[i]);
      if (sum > target) return i;
    }
  }
  return last;  // u * total can exceed the sum by rounding
}

void select_top_k(std::span<const float> logits, size_t k, std::vector<Candidate>& out) {
  out.clear();
  if (k == 0) return;
  k = std::min(k, logits.size());
  const size_t capacity = 2 * k + 64;
  out.reserve(capacity);
  float threshold = -kInfinity;
  constexpr size_t kSkip = 64;
  for (size_t begin = 0; begin < logits.size(); begin += kSkip) {
    const size_t end = std::min(begin + kSkip, logits.size());
    if (block_max(logits.data() + begin, end - begin) <= threshold) continue;
    for (size_t i = begin; i < end; ++i) {
      if (!(logits[i] > threshold)) continue;
      out.push_back({static_cast<TokenId>(i), logits[i], 0.0F});
      if (out.size() < capacity) continue;
      // A later token that only equals the k-th best has a higher id, so it cannot come in.
      std::nth_element(out.begin(), out.begin() + static_cast<ptrdiff_t>(k) - 1, out.end(),
                       ranks_before);
      out.resize(k);
      threshold = out.back().logit;
    }
  }
  const size_t kept = std::min(k, out.size());
  std::partial_sort(out.begin(), out.begin() + static_cast<ptrdiff_t>(kept), out.end(),
                    ranks_before);
  out.resize(kept);
}

void select_at_least(std::span<const float> logits, float threshold, std::vector<Candidate>& out) {
  out.clear();
  constexpr size_t kSkip = 64;
  for (size_t begin = 0; begin < logits.size(); begin += kSkip) {
    const size_t end = std::min(begin + kSkip, logits.size());
    if (block_max(logits.data() + begin, end - begin) < threshold) continue;
    for (size_t i = begin; i < end; ++i) {
      if (logits[i] >= threshold && logits[i] > -kInfinity) {
        out.push_back({static_cast<TokenId>(i), logits[i], 0.0F});
      }
    }
  }
}

double weigh(std::vector<Candidate>& candidates, float max, float scale) {
  double total = 0;
  for (Candidate& c : candidates) {
    c.weight = exp_nonpositive((c.logit - max) * scale);
    total += static_cast<double>(c.weight);
  }
  return total;
}

}  // namespace mlxcel::engine::sampling

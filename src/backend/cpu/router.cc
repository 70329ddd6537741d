// Choice of experts. Scores are f32, as the reference implementations compute them: the choice goes
// by the rounded scores, so that near-ties fall as there.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "backend/cpu/cpu.h"
#include "ops/expert_table.h"

namespace mlxcel::cpu {
namespace {

using ops::RouterOptions;
using Score = RouterOptions::Score;
constexpr float kNone = -std::numeric_limits<float>::infinity();

/// The indices of the `k` largest values, falling; of equal ones the first comes first. `allowed`
/// says which may be chosen.
template <class Allowed>
void choose(const float* values, int32_t count, int32_t k, const Allowed& allowed, int32_t* out) {
  int32_t found = 0;
  for (int32_t i = 0; i < count; ++i) {
    if (!allowed(i)) continue;
    if (found == k && !(values[i] > values[out[k - 1]])) continue;
    int32_t at = found < k ? found++ : k - 1;
    for (; at > 0 && values[i] > values[out[at - 1]]; --at) out[at] = out[at - 1];
    out[at] = i;
  }
}

void softmax(const float* x, int32_t n, float* out) {
  const float largest = *std::max_element(x, x + n);
  float sum = 0.0F;
  for (int32_t i = 0; i < n; ++i) sum += out[i] = std::exp(x[i] - largest);
  for (int32_t i = 0; i < n; ++i) out[i] /= sum;
}

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

class Router {
 public:
  explicit Router(const ops::RouteArgs& a)
      : a_(a),
        o_(a.options),
        experts_(static_cast<int32_t>(a.logits.dim)),
        scores_(static_cast<size_t>(experts_)),
        biased_(scores_.size()),
        group_scores_(static_cast<size_t>(o_.num_groups)),
        group_ids_(static_cast<size_t>(o_.top_groups)),
        group_open_(group_scores_.size(), true) {}

  void row(int64_t t) {
    const float* logits = a_.logits.row(t);
    int32_t* ids = a_.ids + t * o_.top_k;
    float* weights = a_.weights + t * o_.top_k;
    if (o_.score == Score::SparseMixer) {
      sparse_mixer(logits, ids, weights);
    } else {
      pick(logits, ids);
      weigh(logits, ids, weights);
    }
    finish(weights);
  }

 private:
  void pick(const float* logits, int32_t* ids) {
    if (o_.score == Score::Softmax) {
      softmax(logits, experts_, scores_.data());
    } else if (o_.score == Score::Sigmoid) {
      std::transform(logits, logits + experts_, scores_.begin(), sigmoid);
    } else {
      std::copy_n(logits, experts_, scores_.begin());
    }
    for (size_t e = 0; e < scores_.size(); ++e) {
      biased_[e] = a_.bias != nullptr ? scores_[e] + a_.bias[e] : scores_[e];
    }
    if (o_.num_groups > 1) open_groups();
    const int32_t size = experts_ / o_.num_groups;
    choose(
        biased_.data(), experts_, o_.top_k,
        [&](int32_t e) { return group_open_[static_cast<size_t>(e / size)]; }, ids);
  }

  void open_groups() {
    const int32_t size = experts_ / o_.num_groups;
    for (int32_t g = 0; g < o_.num_groups; ++g) {
      float best = kNone, second = kNone;
      for (int32_t e = g * size; e < (g + 1) * size; ++e) {
        const float s = biased_[static_cast<size_t>(e)];
        if (s > best) {
          second = best;
          best = s;
        } else if (s > second) {
          second = s;
        }
      }
      const bool pair = o_.group_score == RouterOptions::GroupScore::TopTwoSum;
      group_scores_[static_cast<size_t>(g)] = pair ? best + second : best;
    }
    choose(
        group_scores_.data(), o_.num_groups, o_.top_groups, [](int32_t) { return true; },
        group_ids_.data());
    std::fill(group_open_.begin(), group_open_.end(), false);
    for (const int32_t g : group_ids_) group_open_[static_cast<size_t>(g)] = true;
  }

  void weigh(const float* logits, const int32_t* ids, float* weights) {
    const bool chosen_logits = o_.score == Score::ChosenSoftmax || o_.score == Score::ChosenSigmoid;
    for (int32_t k = 0; k < o_.top_k; ++k) {
      weights[k] = chosen_logits ? logits[ids[k]] : scores_[static_cast<size_t>(ids[k])];
    }
    if (o_.score == Score::ChosenSoftmax) softmax(weights, o_.top_k, weights);
    if (o_.score == Score::ChosenSigmoid) {
      std::transform(weights, weights + o_.top_k, weights, sigmoid);
    }
  }

  // The best expert, weighted by a softmax over those near it; then the same without it.
  void sparse_mixer(const float* logits, int32_t* ids, float* weights) {
    std::copy_n(logits, experts_, scores_.begin());
    for (int32_t k = 0; k < o_.top_k; ++k) {
      const auto all = [&](int32_t e) { return std::find(ids, ids + k, e) == ids + k; };
      choose(scores_.data(), experts_, 1, all, ids + k);
      const float best = scores_[static_cast<size_t>(ids[k])];
      float sum = 0.0F;
      for (int32_t e = 0; e < experts_; ++e) {
        const float s = logits[e];
        const float distance = (best - s) / std::max(std::fabs(s), best);
        if (!all(e) || distance > 2.0F * o_.jitter) continue;
        sum += std::exp(s - best);
      }
      weights[k] = 1.0F / sum;
    }
  }

  void finish(float* weights) const {
    if (o_.normalize) {
      float sum = 0.0F;
      for (int32_t k = 0; k < o_.top_k; ++k) sum += weights[k];
      const float divisor = std::max(sum, o_.norm_floor) + o_.norm_eps;
      for (int32_t k = 0; k < o_.top_k; ++k) weights[k] /= divisor;
    }
    if (o_.scale == 1.0F) return;
    for (int32_t k = 0; k < o_.top_k; ++k) weights[k] *= o_.scale;
  }

  const ops::RouteArgs& a_;
  const RouterOptions& o_;
  int32_t experts_;
  std::vector<float> scores_, biased_, group_scores_;
  std::vector<int32_t> group_ids_;
  std::vector<bool> group_open_;
};

}  // namespace

void route(const ops::RouteArgs& a) {
  Router router(a);
  for (int64_t t = 0; t < a.logits.outer; ++t) router.row(t);
}

}  // namespace mlxcel::cpu

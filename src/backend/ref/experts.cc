#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "backend/ref/ref.h"
#include "ops/expert_table.h"

namespace mlxcel::ref {
namespace {

using Score = ops::RouterOptions::Score;
using Values = std::vector<double>;

Values softmax(const Values& x) {
  const double largest = *std::max_element(x.begin(), x.end());
  Values out;
  for (const double v : x) out.push_back(std::exp(v - largest));
  const double sum = std::accumulate(out.begin(), out.end(), 0.0);
  for (double& v : out) v /= sum;
  return out;
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// Indices by falling value, equal ones in order.
std::vector<size_t> ranked(const Values& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] > values[b]; });
  return order;
}

// Takes the experts outside the best groups out of the running.
void close_groups(const ops::RouterOptions& o, Values& scores) {
  const size_t groups = static_cast<size_t>(o.num_groups), size = scores.size() / groups;
  Values best;
  for (size_t g = 0; g < groups; ++g) {
    Values own(scores.begin() + static_cast<ptrdiff_t>(g * size),
               scores.begin() + static_cast<ptrdiff_t>((g + 1) * size));
    std::sort(own.rbegin(), own.rend());
    best.push_back(o.group_score == ops::RouterOptions::GroupScore::Max ? own[0] : own[0] + own[1]);
  }
  const auto order = ranked(best);
  for (size_t i = static_cast<size_t>(o.top_groups); i < groups; ++i) {
    for (size_t e = order[i] * size; e < (order[i] + 1) * size; ++e) scores[e] = -INFINITY;
  }
}

Values sparse_mixer(const Values& logits, double jitter, std::vector<size_t>& ids) {
  Values rest = logits, weights;
  for (int k = 0; k < 2; ++k) {
    ids.push_back(ranked(rest).front());
    const double best = rest[ids.back()];
    Values near = rest;
    for (size_t e = 0; e < near.size(); ++e) {
      const double factor = std::max(std::fabs(logits[e]), best);
      if ((best - logits[e]) / factor > 2.0 * jitter) near[e] = -INFINITY;
    }
    weights.push_back(softmax(near)[ids.back()]);
    rest[ids.back()] = -INFINITY;
  }
  return weights;
}

Values route_row(const ops::RouteArgs& a, const Values& logits, std::vector<size_t>& ids) {
  const ops::RouterOptions& o = a.options;
  if (o.score == Score::SparseMixer) {
    return sparse_mixer(logits, static_cast<double>(o.jitter), ids);
  }
  Values scores = logits;
  if (o.score == Score::Softmax) scores = softmax(logits);
  if (o.score == Score::Sigmoid)
    std::transform(logits.begin(), logits.end(), scores.begin(), sigmoid);
  Values choice = scores;
  for (size_t e = 0; a.bias != nullptr && e < choice.size(); ++e) {
    choice[e] += static_cast<double>(a.bias[e]);
  }
  if (o.num_groups > 1) close_groups(o, choice);
  ids = ranked(choice);
  ids.resize(static_cast<size_t>(o.top_k));
  Values weights;
  for (const size_t e : ids) weights.push_back(scores[e]);
  if (o.score == Score::ChosenSoftmax) weights = softmax(weights);
  if (o.score == Score::ChosenSigmoid) {
    std::transform(weights.begin(), weights.end(), weights.begin(), sigmoid);
  }
  return weights;
}

}  // namespace

void route(const ops::RouteArgs& a) {
  const ops::RouterOptions& o = a.options;
  for (int64_t t = 0; t < a.logits.outer; ++t) {
    const Values logits(a.logits.row(t), a.logits.row(t) + a.logits.dim);
    std::vector<size_t> ids;
    Values weights = route_row(a, logits, ids);
    if (o.normalize) {
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      const double divisor =
          std::max(sum, static_cast<double>(o.norm_floor)) + static_cast<double>(o.norm_eps);
      for (double& w : weights) w /= divisor;
    }
    for (size_t k = 0; k < weights.size(); ++k) {
      const int64_t at = t * o.top_k + static_cast<int64_t>(k);
      a.ids[at] = static_cast<int32_t>(ids[k]);
      a.weights[at] = static_cast<float>(weights[k] * static_cast<double>(o.scale));
    }
  }
}

void expert_linear(const float* x, int64_t slots, int64_t slots_per_row, const int32_t* ids,
                   const std::vector<const MatrixSource*>& experts, const float* bias, float* y) {
  const int64_t rows = experts.front()->rows(), cols = experts.front()->cols();
  for (int64_t s = 0; s < slots; ++s) {
    linear(x + s / slots_per_row * cols, 1, *experts[static_cast<size_t>(ids[s])],
           bias != nullptr ? bias + ids[s] * rows : nullptr, y + s * rows);
  }
}

void register_experts(ops::OpTable& t) {
  t.route = route;
  t.combine_experts = [](const ops::CombineArgs& a) {
    for (int64_t i = 0; i < a.tokens * a.y.dim; ++i) {
      const int64_t token = i / a.y.dim, d = i % a.y.dim;
      double sum = 0.0;
      for (int64_t k = 0; k < a.choices; ++k) {
        const int64_t slot = token * a.choices + k;
        const double weight = a.weights != nullptr ? static_cast<double>(a.weights[slot]) : 1.0;
        sum += weight * static_cast<double>(a.y.row(slot)[d]);
      }
      a.out[i] = static_cast<float>(sum);
    }
  };
  t.scale_rows = [](const ops::ScaleRowsArgs& a) {
    for (int64_t i = 0; i < a.count * a.x.dim; ++i) {
      const int64_t row = i / a.x.dim;
      a.out[i] = a.x.row(row / a.per_row)[i % a.x.dim] * a.factors[row];
    }
  };
  t.sigmoid = [](const ops::UnaryArgs& a) {
    for (int64_t i = 0; i < a.x.rows() * a.x.dim; ++i) {
      a.out[i] =
          static_cast<float>(sigmoid(static_cast<double>(a.x.row(i / a.x.dim)[i % a.x.dim])));
    }
  };
  t.clamped_swiglu = [](const ops::ClampedSwigluArgs& a) {
    const int64_t n = a.gate.dim;
    const auto limit = static_cast<double>(a.limit), alpha = static_cast<double>(a.alpha);
    for (int64_t i = 0; i < a.gate.rows() * n; ++i) {
      const double gate = std::min(static_cast<double>(a.gate.row(i / n)[i % n]), limit);
      const double up = std::clamp(static_cast<double>(a.up.row(i / n)[i % n]), -limit, limit);
      a.out[i] = static_cast<float>(gate * sigmoid(alpha * gate) * (up + 1.0));
    }
  };
}

}  // namespace mlxcel::ref

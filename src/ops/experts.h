// Mixture of experts: choosing experts for every token, and products with the chosen ones only.
// E experts, K chosen ones a token; a slot is one (token, choice) pair, slot = token * K + choice.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/ops.h"

namespace mlxcel::ops {

// ---- routing
// --------------------------------------------------------------------------------------------------

struct RouterOptions {
  /// What the choice goes by and what the weights are made of.
  enum class Score : uint8_t {
    Softmax,        // softmax over all experts (f32); the choice goes by these probabilities
    Sigmoid,        // sigmoid of each logit
    ChosenSoftmax,  // chosen by logit, weights are a softmax over the chosen logits
    ChosenSigmoid,  // chosen by logit, weights are the sigmoids of the chosen logits
    SparseMixer,    // arXiv:2409.12136 at inference: one after another, see `jitter`
  };
  /// How the score of a group comes from those of its experts, selection bias included.
  enum class GroupScore : uint8_t { Max, TopTwoSum };

  Score score = Score::Softmax;
  int32_t top_k = 1;
  int32_t num_groups = 1, top_groups = 1;  // only experts of the best groups can be chosen
  GroupScore group_score = GroupScore::TopTwoSum;
  bool normalize = false;  // weights are divided by max(their sum, norm_floor) + norm_eps
  float norm_floor = 0.0F, norm_eps = 0.0F;
  float scale = 1.0F;  // multiplies the weights at the end
  /// SparseMixer: logits further than 2 * jitter (relative) below the best one left out of the
  /// softmax that gives its weight.
  float jitter = 0.01F;
};

struct Routing {
  Tensor ids;      // [T, K] i32, best first; equal scores: the lower id first
  Tensor weights;  // [T, K] f32
};

/// Throws InvalidArgument for options that do not fit E experts.
void check_router(const RouterOptions& options, int64_t experts);
/// Routes every row of logits [T, E]. `selection_bias` [E] f32 (or null) is added to the scores for
/// the choice only, never to the weights. Throws InvalidArgument for options that do not fit E.
Routing route(const Tensor& logits, const RouterOptions& options,
              const Tensor& selection_bias = {});

// ---- products
// -------------------------------------------------------------------------------------------------

/// E matrices of equal shape and format in the layout of one device. Immutable, shared between
/// threads.
class PackedExperts {
 public:
  virtual ~PackedExperts() = default;
  virtual int64_t num_experts() const = 0;
  virtual int64_t rows() const = 0;  // outputs of one expert
  virtual int64_t cols() const = 0;  // inputs
  virtual int64_t bytes() const = 0;
  virtual Device device() const = 0;
  virtual const WeightFormat& format() const = 0;
};

/// The matrices of one expert, stacked by rows.
using ExpertSources = std::vector<const MatrixSource*>;

/// Packs experts one after the other and drops their mapped pages. All must have the same rows,
/// columns and format.
std::shared_ptr<const PackedExperts> pack_experts(std::span<const ExpertSources> experts,
                                                  Device device);

/// y[slot] = x[slot / (S / x rows)] W_e^T (+ bias_e) with e = ids[slot]; ids holds S slots, x one
/// row a token [T, cols] or one row a slot [S, cols]. bias [E, rows] f32 or null. -> [S, rows].
/// Reads the matrices of the routed experts only, each once. A row's bits depend neither on the
/// other rows nor on which of them share an expert.
Tensor expert_linear(const Tensor& x, const PackedExperts& w, const Tensor& ids,
                     const Tensor& bias = {});
/// y[t, h] = x[t, h] W_h^T: every head of a token times the matrix of that head. x [T, E, cols],
/// heads at any stride -> [T, E, rows].
Tensor head_linear(const Tensor& x, const PackedExperts& w);
/// sum over the slots of a token of weights[token, k] * y[slot], in the order of k. y [S, D],
/// weights [T, K] -> [T, D].
Tensor combine_experts(const Tensor& y, const Tensor& weights);
/// The same with all weights 1: y [T * choices, D] -> [T, D].
Tensor sum_slots(const Tensor& y, int64_t choices);

// ---- element-wise
// ---------------------------------------------------------------------------------------------

/// out[i] = factors[i] * x[i / K] for x [T, D] and T * K factors, f32 [T, K] or [T]. -> [T * K, D].
Tensor scale_rows(const Tensor& x, const Tensor& factors);
Tensor sigmoid(const Tensor& x);
/// g * sigmoid(alpha * g) * (u + 1) with g = min(gate, limit) and u = clamp(up, -limit, limit).
Tensor clamped_swiglu(const Tensor& gate, const Tensor& up, float alpha, float limit);
/// The same with gate and up side by side: gate_up [T, 2F] -> [T, F].
Tensor clamped_swiglu_fused(const Tensor& gate_up, float alpha, float limit);

}  // namespace mlxcel::ops

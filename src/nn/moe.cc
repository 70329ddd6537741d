#include "nn/moe.h"

#include <optional>

#include "base/error.h"
#include "nn/layers.h"

namespace mlxcel::nn {
namespace {

Tensor selection_bias(const MoeOptions& o, const io::Weights& w) {
  if (o.selection_bias.empty()) return {};
  if (o.selection_bias_optional && !w.has(o.selection_bias)) return {};
  if (w.dims(o.selection_bias).size() == 2) {
    return w.take_f32(o.selection_bias, Shape{1, o.num_experts}).view({o.num_experts});
  }
  return w.take_f32(o.selection_bias, Shape{o.num_experts});
}

bool gated(const MoeOptions& o) { return o.activation.kind != ExpertActivation::Kind::Relu2; }

ExpertNames expert_names(const MoeOptions& o) {
  ExpertNames names = o.names;
  if (!gated(o)) names.gate = names.gate_up = {};
  return names;
}

class Moe final : public FeedForward {
 public:
  Moe(const MoeOptions& o, const io::Weights& w)
      : options_(o),
        router_(w.at(o.router_name), o.hidden_size, o.num_experts, Parallel::None, o.router_bias),
        selection_bias_(selection_bias(o, w)),
        experts_(take_experts(w, expert_names(o),
                              {.num_experts = o.num_experts,
                               .hidden_size = o.hidden_size,
                               .intermediate_size = o.intermediate_size},
                              o.expert_bias)) {
    if (o.shared_intermediate_size > 0) {
      shared_ = make_mlp({.hidden_size = o.hidden_size,
                          .intermediate_size = o.shared_intermediate_size,
                          .activation = gated(o) ? ops::Activation::Silu : ops::Activation::Relu2,
                          .gated = gated(o),
                          .bias = o.shared_bias},
                         w.at(o.shared_name));
    }
    if (!o.shared_gate.empty()) {
      shared_gate_.emplace(w.at(o.shared_gate), o.hidden_size, 1, Parallel::None, Bias::None);
    }
  }

  Tensor operator()(const Tensor& x, const Batch& batch) const override {  // [T, D] -> [T, D]
    const ops::Routing r = ops::route(router_(x), options_.router, selection_bias_);  // [T, K] each
    Tensor y = options_.scale_input ? scaled_inputs(x, r) : routed(x, r);
    if (shared_) y = ops::add(y, shared(x, batch));
    return y;
  }

  int64_t weight_bytes() const override {
    return router_.weight_bytes() + (selection_bias_ ? selection_bias_.bytes() : 0) +
           experts_.bytes() + (shared_ ? shared_->weight_bytes() : 0) +
           (shared_gate_ ? shared_gate_->weight_bytes() : 0);
  }

 private:
  /// x is one row a token [T, D] or one a slot [S, D]; -> [S, D].
  Tensor run_experts(const Tensor& x, const Tensor& ids) const {
    MLXCEL_CHECK(experts_.down != nullptr, "experts whose weights are missing were run");
    if (!gated(options_)) {
      const Tensor up = ops::expert_linear(x, *experts_.up, ids, experts_.up_bias);  // [S, F]
      return ops::expert_linear(ops::activate(up, ops::Activation::Relu2), *experts_.down, ids,
                                experts_.down_bias);
    }
    const Tensor gate = ops::expert_linear(x, *experts_.gate, ids, experts_.gate_bias);
    if (experts_.up == nullptr) {  // gate is [S, 2F]
      return ops::expert_linear(activate(gate), *experts_.down, ids, experts_.down_bias);
    }
    const Tensor up = ops::expert_linear(x, *experts_.up, ids, experts_.up_bias);  // [S, F]
    return ops::expert_linear(activate(gate, up), *experts_.down, ids, experts_.down_bias);
  }

  Tensor activate(const Tensor& gate_up) const {  // [S, 2F] -> [S, F]
    const ExpertActivation& a = options_.activation;
    return a.kind == ExpertActivation::Kind::SwiGlu
               ? ops::silu_mul_fused(gate_up)
               : ops::clamped_swiglu_fused(gate_up, a.alpha, a.limit);
  }
  Tensor activate(const Tensor& gate, const Tensor& up) const {  // [S, F] each -> [S, F]
    const ExpertActivation& a = options_.activation;
    return a.kind == ExpertActivation::Kind::SwiGlu
               ? ops::silu_mul(gate, up)
               : ops::clamped_swiglu(gate, up, a.alpha, a.limit);
  }

  Tensor routed(const Tensor& x, const ops::Routing& r) const {  // [T, D] -> [T, D]
    return ops::combine_experts(run_experts(x, r.ids), r.weights);
  }

  // The router's weight goes in front of the experts, so slots of a token have different inputs.
  Tensor scaled_inputs(const Tensor& x, const ops::Routing& r) const {  // [T, D] -> [T, D]
    const Tensor inputs = ops::scale_rows(x, r.weights);                // [S, D]
    return ops::sum_slots(run_experts(inputs, r.ids), r.ids.dim(1));
  }

  Tensor shared(const Tensor& x, const Batch& batch) const {  // [T, D] -> [T, D]
    const Tensor y = (*shared_)(x, batch);
    return shared_gate_ ? ops::scale_rows(y, ops::sigmoid((*shared_gate_)(x))) : y;
  }

  MoeOptions options_;
  Linear router_;
  Tensor selection_bias_;  // [E] f32 or null
  ExpertWeights experts_;
  std::unique_ptr<FeedForward> shared_;
  std::optional<Linear> shared_gate_;
};

}  // namespace

std::unique_ptr<FeedForward> make_moe(const MoeOptions& options, const io::Weights& w) {
  with_context(w.path(), [&] { ops::check_router(options.router, options.num_experts); });
  return std::make_unique<Moe>(options, w);
}

}  // namespace mlxcel::nn

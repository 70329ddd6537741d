#include "nn/layer_inputs.h"

#include <cmath>

#include "base/error.h"

namespace mlxcel::nn {

LayerInputs::LayerInputs(const LayerInputOptions& options, const io::Weights& w)
    : options_(options),
      table_(w.at("embed_tokens_per_layer"), options.vocab_size, options.num_layers * options.dim),
      projection_(w.at("per_layer_model_projection"), options.hidden_size,
                  options.num_layers * options.dim, Parallel::None, Bias::None),
      norm_(w.at("per_layer_projection_norm"), options.dim, options.norm) {}

Tensor LayerInputs::operator()(const Tensor& token_ids, const Tensor& x) const {
  const float width = std::sqrt(static_cast<float>(options_.hidden_size));
  const Tensor projected = ops::scale(projection_(x), 1.0F / width);          // [T, L * P]
  Tensor e = norm_(projected.view({-1, options_.num_layers, options_.dim}));  // [T, L, P]
  if (!token_ids) return e;
  const float size = std::sqrt(static_cast<float>(options_.dim));
  const Tensor looked_up = ops::scale(table_(token_ids), size);  // [T, L * P]
  e = ops::add(e, looked_up.view({-1, options_.num_layers, options_.dim}));
  return ops::scale(e, std::sqrt(0.5F));
}

int64_t LayerInputs::weight_bytes() const {
  return table_.weight_bytes() + projection_.weight_bytes() + norm_.weight_bytes();
}

LayerInputGate::LayerInputGate(const LayerInputOptions& options, const io::Weights& w, int layer)
    : options_(options),
      layer_(layer),
      gate_(w.at("per_layer_input_gate"), options.hidden_size, options.dim, Parallel::None,
            Bias::None),
      projection_(w.at("per_layer_projection"), options.dim, options.hidden_size, Parallel::None,
                  Bias::None),
      norm_(w.at("post_per_layer_input_norm"), options.hidden_size, options.norm) {}

Tensor LayerInputGate::operator()(const Tensor& x, const Batch& batch) const {
  MLXCEL_CHECK(bool(batch.layer_inputs), "a layer without its inputs");
  const Tensor mine =
      batch.layer_inputs.slice(1, layer_, layer_ + 1).view({x.dim(0), options_.dim});  // [T, P]
  const Tensor gate = ops::activate(gate_(x), options_.activation);                    // [T, P]
  return norm_(projection_(ops::mul(gate, mine)));                                     // [T, D]
}

int64_t LayerInputGate::weight_bytes() const {
  return gate_.weight_bytes() + projection_.weight_bytes() + norm_.weight_bytes();
}

}  // namespace mlxcel::nn

#include "nn/block.h"

#include <optional>

#include "base/error.h"

namespace mlxcel::nn {
namespace {

class ResidualBlock final : public Block {
 public:
  ResidualBlock(const BlockOptions& o, const io::Weights& w, std::unique_ptr<Mixer> mixer,
                std::unique_ptr<FeedForward> feed_forward)
      : options_(o), mixer_(std::move(mixer)), feed_forward_(std::move(feed_forward)) {
    const auto make = [&](std::optional<Norm>& norm, std::string_view name, bool wanted) {
      if (wanted && !name.empty()) norm.emplace(w.at(name), o.hidden_size, o.norm);
    };
    make(mixer_in_, o.names.mixer_in, mixer_ != nullptr);
    make(mixer_out_, o.names.mixer_out, mixer_ != nullptr);
    make(ff_in_, o.names.ff_in, feed_forward_ != nullptr);
    make(ff_out_, o.names.ff_out, feed_forward_ != nullptr);
    if (o.layer_inputs.dim > 0) layer_input_.emplace(o.layer_inputs, w, o.layer);
    if (o.output_scale) output_scale_ = w.take_f32("layer_scalar", Shape{1}).host<float>()[0];
  }

  Tensor operator()(const Tensor& x, const Batch& batch) const override {  // [T, D] -> [T, D]
    Tensor y = both_parts(x, batch);
    if (layer_input_) y = ops::add(y, (*layer_input_)(y, batch));
    return output_scale_ == 1.0F ? y : ops::scale(y, output_scale_);
  }

  Residual continue_from(const Residual& r, const Batch& batch) const override {
    const bool both_norms = mixer_ && mixer_in_ && feed_forward_ && ff_in_ && !options_.parallel;
    if (!both_norms || layer_input_ || options_.output_scale) {
      return {(*this)(r.value(), batch), {}};
    }
    const auto [x, h] =
        r.delta ? mixer_in_->add(r.x, r.delta) : ops::AddNorm{r.x, (*mixer_in_)(r.x)};
    const auto [a, g] = ff_in_->add(x, mix(h, batch));  // [T, D] each
    return {a, fed_forward(g, batch)};
  }

  int64_t weight_bytes() const override {
    int64_t total = mixer_ ? mixer_->weight_bytes() : 0;
    if (feed_forward_) total += feed_forward_->weight_bytes();
    for (const auto* norm : {&mixer_in_, &mixer_out_, &ff_in_, &ff_out_}) {
      if (*norm) total += (*norm)->weight_bytes();
    }
    return total + (layer_input_ ? layer_input_->weight_bytes() : 0);
  }

 private:
  Tensor both_parts(const Tensor& x, const Batch& batch) const {
    if (options_.parallel) return parallel(x, batch);
    if (!mixer_) return ops::add(x, fed_forward(ff_in_ ? (*ff_in_)(x) : x, batch));
    const Tensor mixed = mix(mixer_in_ ? (*mixer_in_)(x) : x, batch);  // [T, D]
    if (!feed_forward_) return ops::add(x, mixed);
    if (ff_in_) {
      const auto [a, h] = ff_in_->add(x, mixed);  // [T, D] each
      return ops::add(a, fed_forward(h, batch));
    }
    const Tensor a = ops::add(x, mixed);  // [T, D]
    return ops::add(a, fed_forward(a, batch));
  }

  /// What either part adds to the residual stream.
  Tensor contribution(const Tensor& y, const std::optional<Norm>& norm) const {
    const Tensor out = norm ? (*norm)(y) : y;
    return options_.residual_multiplier == 1.0F ? out
                                                : ops::scale(out, options_.residual_multiplier);
  }
  Tensor mix(const Tensor& h, const Batch& batch) const {
    return contribution((*mixer_)(h, batch), mixer_out_);
  }
  Tensor fed_forward(const Tensor& h, const Batch& batch) const {
    return contribution((*feed_forward_)(h, batch), ff_out_);
  }
  Tensor parallel(const Tensor& x, const Batch& batch) const {
    const Tensor h = mixer_in_ ? (*mixer_in_)(x) : x;  // [T, D]
    const Tensor mixed = mix(h, batch);                // [T, D]
    return ops::add(ops::add(x, mixed), fed_forward(ff_in_ ? (*ff_in_)(x) : h, batch));
  }

  BlockOptions options_;
  std::unique_ptr<Mixer> mixer_;
  std::unique_ptr<FeedForward> feed_forward_;
  std::optional<LayerInputGate> layer_input_;
  float output_scale_ = 1.0F;
  std::optional<Norm> mixer_in_, mixer_out_, ff_in_, ff_out_;
};

}  // namespace

std::unique_ptr<Block> make_block(const BlockOptions& options, const io::Weights& w,
                                  std::unique_ptr<Mixer> mixer,
                                  std::unique_ptr<FeedForward> feed_forward) {
  MLXCEL_CHECK(mixer || feed_forward, "a block without any part");
  MLXCEL_CHECK(!options.parallel || (mixer && feed_forward), "a parallel block has both parts");
  return std::make_unique<ResidualBlock>(options, w, std::move(mixer), std::move(feed_forward));
}

}  // namespace mlxcel::nn

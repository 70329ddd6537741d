#include "nn/decoder.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "nn/layers.h"

namespace mlxcel::nn {
namespace {

/// Whether two tables agree on up to 1,024 rows spread over them; enough to tell a copy from a
/// tuned head without reading both tables whole.
bool same_table(const MatrixSource& a, const MatrixSource& b) {
  const int64_t rows = a.rows(), cols = a.cols();
  const int64_t step = std::max<int64_t>(1, rows / 1024);
  std::vector<float> x(static_cast<size_t>(cols)), y(x.size());
  for (int64_t row = 0; row < rows; row += step) {
    a.read_f32(row, 1, x.data());
    b.read_f32(row, 1, y.data());
    if (x != y) return false;
  }
  return true;
}

/// Marks the head of a tied checkpoint as seen and warns when it says something else.
void set_aside_head(const DecoderConfig& c) {
  if (!c.lm_head.has("weight")) return;
  const io::Weights embedding = c.model.at("embed_tokens");
  const auto head = c.lm_head.take_matrix(c.spec.vocab_size, c.spec.hidden_size);
  if (!embedding.has("weight")) return;
  const auto table = embedding.take_matrix(c.spec.vocab_size, c.spec.hidden_size);
  if (same_table(*head, *table)) return;
  log::warn("{}.weight differs from the embedding, but tie_word_embeddings is true: it is ignored",
            c.lm_head.path());
}

class Decoder final : public CausalLm {
 public:
  explicit Decoder(DecoderConfig c)
      : spec_(std::move(c.spec)),
        embed_scale_(c.embed_scale),
        logit_scale_(c.logit_scale),
        logit_softcap_(c.logit_softcap),
        embed_tokens_(c.model.at("embed_tokens"), spec_.vocab_size, spec_.hidden_size),
        norm_(c.model.at("norm"), spec_.hidden_size, c.norm) {
    if (c.layer_inputs.dim > 0) layer_inputs_.emplace(c.layer_inputs, c.model);
    if (c.learned_positions > 0) {
      embed_positions_.emplace(c.model.at("embed_positions"), c.learned_positions,
                               spec_.hidden_size);
    }
    for (size_t layer = 0; layer < spec_.caches.size(); ++layer) {
      blocks_.push_back(
          c.block(c.model.at("layers", static_cast<int64_t>(layer)), static_cast<int>(layer)));
    }
    if (!c.tie_word_embeddings.value_or(!c.lm_head.has("weight"))) {
      lm_head_ = std::make_unique<Linear>(c.lm_head, spec_.hidden_size, spec_.vocab_size,
                                          Parallel::None, c.head_bias);
    }
    spec_.device = c.model.device();
    weight_bytes_ = embed_tokens_.weight_bytes() + norm_.weight_bytes() +
                    (layer_inputs_ ? layer_inputs_->weight_bytes() : 0) +
                    (embed_positions_ ? embed_positions_->weight_bytes() : 0) +
                    (lm_head_ ? lm_head_->weight_bytes() : 0);
    for (const auto& block : blocks_) weight_bytes_ += block->weight_bytes();
  }

  const ModelSpec& spec() const override { return spec_; }
  int64_t weight_bytes() const override { return weight_bytes_; }

  Tensor forward(const Batch& batch) const override {
    if (!layer_inputs_) return run(batch, embed(batch));
    const Tensor x = embed(batch);  // [T, D]
    Batch with_inputs = batch;
    with_inputs.layer_inputs = (*layer_inputs_)(batch.token_ids, x);
    return run(with_inputs, x);
  }

 private:
  Tensor embed(const Batch& batch) const {                                    // [T, D]
    Tensor x = batch.embeds ? batch.embeds : embed_tokens_(batch.token_ids);  // [T, D]
    if (embed_scale_ != 1.0F) x = ops::scale(x, embed_scale_);
    if (embed_positions_) x = ops::add(x, (*embed_positions_)(batch.positions));
    return x;
  }

  Tensor run(const Batch& batch, Tensor x) const {
    Residual r{x, {}};
    for (size_t layer = 0; layer < blocks_.size(); ++layer) {
      r = blocks_[layer]->continue_from(r, batch);
      if (!batch.capture_hidden) continue;
      r = {r.value(), {}};
      batch.capture_hidden(static_cast<int>(layer), r.x);
    }
    if (batch.logit_rows.numel() == 0) {
      return Tensor::empty(Shape{0, spec_.vocab_size}, DType::F32, x.device());
    }
    x = ops::take_rows(r.x, batch.logit_rows);  // [R, D]
    x = r.delta ? norm_.add(x, ops::take_rows(r.delta, batch.logit_rows)).normed : norm_(x);
    Tensor logits = lm_head_ ? lm_head_->logits(x) : embed_tokens_.logits(x);  // [R, V]
    if (logit_scale_ != 1.0F) logits = ops::scale(logits, logit_scale_);
    if (logit_softcap_ > 0.0F) logits = ops::softcap(logits, logit_softcap_);
    return logits;
  }

  ModelSpec spec_;
  float embed_scale_, logit_scale_, logit_softcap_;
  Embedding embed_tokens_;
  std::optional<Embedding> embed_positions_;
  std::optional<LayerInputs> layer_inputs_;
  std::vector<std::unique_ptr<Block>> blocks_;
  Norm norm_;
  std::unique_ptr<Linear> lm_head_;  // null when the embedding is the head
  int64_t weight_bytes_ = 0;
};

}  // namespace

std::unique_ptr<CausalLm> make_decoder(DecoderConfig config) {
  MLXCEL_CHECK(config.block != nullptr, "a decoder needs a block factory");
  if (config.tie_word_embeddings.value_or(false)) set_aside_head(config);
  return std::make_unique<Decoder>(std::move(config));
}

}  // namespace mlxcel::nn

// Runs a model without the engine: keys and values of a few sequences in plain paged storage. The
// blocks of a sequence are scattered, unwritten storage holds NaN, and blocks that lie wholly
// behind a window are -1, so that a kernel that reads what it must not is seen.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "nn/causal_lm.h"
#include "tensor/device.h"

namespace mlxcel::testing {

class DirectCaches final : public nn::LayerCaches {
 public:
  static constexpr int32_t kBlockTokens = 32;

  DirectCaches(const nn::ModelSpec& spec, int num_sequences, int64_t max_tokens)
      : spec_(spec),
        num_sequences_(num_sequences),
        blocks_each_(static_cast<int32_t>((max_tokens + kBlockTokens - 1) / kBlockTokens)),
        lengths_(static_cast<size_t>(num_sequences), 0),
        prompt_lengths_(static_cast<size_t>(num_sequences), 0) {
    // Narrow activations go with a narrow cache, which the fast kernels need.
    type_ = activation_type(spec.device) == DType::F32 ? DType::F32 : DType::F16;
    for (const nn::CacheSpec& c : spec.caches) {
      const int64_t tokens = int64_t{num_blocks()} * kBlockTokens;
      k_.push_back(storage(tokens * c.num_kv_heads * c.k_dim));
      v_.push_back(storage(tokens * c.num_kv_heads * c.v_dim));
      std::vector<Tensor>& states = states_.emplace_back();
      for (const Shape& shape : c.state) {
        std::vector<int64_t> dims = {num_sequences};
        dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
        states.push_back(Tensor::zeros(Shape(dims), DType::F32));
      }
    }
  }

  /// New tokens of one sequence.
  struct Piece {
    int sequence = 0;
    std::vector<int32_t> tokens;
    bool all_logits = false;  // else of the last token
  };

  /// Length of the whole prompt of a sequence; that of its first piece unless set.
  void set_prompt_length(int sequence, int64_t length) {
    prompt_lengths_.at(static_cast<size_t>(sequence)) = static_cast<int32_t>(length);
  }

  /// Handed to the model with every batch.
  std::function<void(int layer, const Tensor& x)> capture_hidden;

  /// Runs one forward; logits [R, V] of the wanted rows on the host, piece after piece.
  Tensor forward(const nn::CausalLm& model, std::span<const Piece> pieces) {
    std::vector<int32_t> ids, positions, rows;
    segments_.clear();
    for (const Piece& piece : pieces) {
      int32_t& length = lengths_.at(static_cast<size_t>(piece.sequence));
      nn::Segment s;
      s.row = static_cast<int32_t>(ids.size());
      s.q_len = static_cast<int32_t>(piece.tokens.size());
      s.kv_len = length + s.q_len;
      s.cache_row = piece.sequence;
      int32_t& prompt = prompt_lengths_.at(static_cast<size_t>(piece.sequence));
      if (prompt == 0) prompt = s.q_len;
      s.prompt_len = prompt;
      for (int32_t i = 0; i < s.q_len; ++i) {
        if (piece.all_logits || i + 1 == s.q_len) rows.push_back(s.row + i);
        positions.push_back(length + i);
      }
      ids.insert(ids.end(), piece.tokens.begin(), piece.tokens.end());
      length = s.kv_len;
      segments_.push_back(s);
    }
    make_tables();
    nn::Batch batch;
    batch.token_ids = vector(ids);
    batch.positions = vector(positions);
    batch.logit_rows = vector(rows);
    batch.segments = segments_;
    batch.caches = this;
    batch.capture_hidden = capture_hidden;
    return model.forward(batch).to(Device{});
  }

  ops::PagedKv kv(int layer) const override {
    const auto at = static_cast<size_t>(layer);
    const nn::CacheSpec& c = spec_.caches.at(at);
    ops::PagedKv kv;
    kv.k = const_cast<void*>(k_[at].raw());
    if (c.v_dim > 0) kv.v = const_cast<void*>(v_[at].raw());
    kv.type = type_;
    kv.device = spec_.device;
    kv.num_blocks = num_blocks();
    kv.block_tokens = kBlockTokens;
    kv.kv_heads = c.num_kv_heads;
    kv.k_dim = c.k_dim;
    kv.v_dim = c.v_dim;
    return kv;
  }

  std::span<const ops::AttentionSegment> segments(int layer) const override {
    return attention_.at(spec_.caches.at(static_cast<size_t>(layer)).window);
  }

  Tensor state(int layer, int index) const override {
    return states_.at(static_cast<size_t>(layer)).at(static_cast<size_t>(index));
  }

 private:
  Tensor storage(int64_t n) const {
    Tensor t = Tensor::empty({n}, type_, spec_.device);
    fill_bytes(spec_.device, t.raw(), 0xFF, t.bytes());  // NaN in every type
    return t;
  }
  Tensor vector(const std::vector<int32_t>& values) const {
    return Tensor::of(values, Shape{static_cast<int64_t>(values.size())}).to(spec_.device);
  }
  int32_t num_blocks() const { return blocks_each_ * num_sequences_; }

  /// Block tables of every window size in use.
  void make_tables() {
    tables_.clear();
    attention_.clear();
    for (const nn::CacheSpec& c : spec_.caches) {
      if (attention_.contains(c.window)) continue;
      for (const nn::Segment& s : segments_) {
        std::vector<int32_t>& table = tables_.emplace_back();
        const int32_t first_visible = c.window > 0 ? s.kv_len - s.q_len - c.window + 1 : 0;
        for (int32_t i = 0; i * kBlockTokens < s.kv_len; ++i) {
          const bool behind = (i + 1) * kBlockTokens <= first_visible;
          table.push_back(behind ? -1 : num_blocks() - 1 - (i * num_sequences_ + s.cache_row));
        }
        attention_[c.window].push_back(
            {.row = s.row, .q_len = s.q_len, .kv_len = s.kv_len, .blocks = table.data()});
      }
    }
  }

  nn::ModelSpec spec_;
  int32_t num_sequences_, blocks_each_;
  std::vector<int32_t> lengths_, prompt_lengths_;
  std::vector<std::vector<Tensor>> states_;  // [layer][index]
  DType type_ = DType::F32;
  std::vector<Tensor> k_, v_;
  std::vector<nn::Segment> segments_;
  std::vector<std::vector<int32_t>> tables_;  // moved, never copied: blocks point into them
  std::map<int32_t, std::vector<ops::AttentionSegment>> attention_;
};

}  // namespace mlxcel::testing

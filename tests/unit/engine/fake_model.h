// A toy decoder whose logits depend on every bit of the cache content that a token may see, and the
// same arithmetic without any cache as its oracle.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "nn/causal_lm.h"
#include "text/tokenizer.h"

namespace mlxcel::engine::testing {

struct FakeConfig {
  int64_t vocab_size = 64, max_positions = 4096;
  std::vector<nn::CacheSpec> layers = {nn::CacheSpec::full(2, 3), nn::CacheSpec::full(1, 2)};
};

/// Full attention, a window of `window` tokens, and widths that differ between layers.
FakeConfig windowed_config(int32_t window);
/// Full attention and two recurrent layers.
FakeConfig hybrid_config();

/// Scalar attention over keys and values read through LayerCaches. Keeps no state of its own.
class FakeLm final : public nn::CausalLm {
 public:
  explicit FakeLm(FakeConfig config = {});
  const nn::ModelSpec& spec() const override { return spec_; }
  Tensor forward(const nn::Batch& batch) const override;
  int64_t weight_bytes() const override { return 0; }

  /// Logits of every position of `tokens`, computed from plain arrays.
  std::vector<std::vector<float>> reference(std::span<const int32_t> tokens) const;

  /// Called before each forward; may throw or wait.
  std::function<void(const nn::Batch&)> before_forward;
  /// Logits of a row whose token is this one are not numbers.
  int32_t poison_token = -1;
  /// Skips the arithmetic: for measuring the engine alone.
  bool trivial = false;
  mutable std::atomic<int64_t> num_forwards{0}, num_tokens{0};
  mutable std::atomic<int32_t> largest_batch{0};

 private:
  void logits(double x, int32_t token, std::span<float> out) const;
  nn::ModelSpec spec_;
};

/// Tokens with given bytes; the last one is special.
class FakeTokenizer final : public text::Tokenizer {
 public:
  explicit FakeTokenizer(std::vector<std::string> bytes) : bytes_(std::move(bytes)) {}
  std::vector<text::TokenId> encode(std::string_view text,
                                    const text::EncodeOptions& options) const override;
  std::string decode(std::span<const text::TokenId> ids, bool skip_special) const override;
  std::string_view bytes(text::TokenId id) const override;
  std::string_view token(text::TokenId id) const override { return bytes(id); }
  std::optional<text::TokenId> id_of(std::string_view token) const override;
  bool is_special(text::TokenId id) const override { return id == vocab_size() - 1; }
  int32_t vocab_size() const override { return static_cast<int32_t>(bytes_.size()); }
  std::optional<text::TokenId> bos_id() const override { return std::nullopt; }
  std::optional<text::TokenId> eos_id() const override { return vocab_size() - 1; }
  bool strips_leading_space() const override { return false; }

 private:
  std::vector<std::string> bytes_;
};

/// "a0 ", "b1 " ... for the default vocabulary.
std::shared_ptr<const FakeTokenizer> plain_tokenizer(int32_t vocab_size = 64);

/// Emits a script: the logits of position p prefer script[p - prompt length].
class ScriptedLm final : public nn::CausalLm {
 public:
  ScriptedLm(int64_t vocab_size, int32_t num_prompt, std::vector<int32_t> script);
  const nn::ModelSpec& spec() const override { return spec_; }
  Tensor forward(const nn::Batch& batch) const override;
  int64_t weight_bytes() const override { return 0; }

 private:
  nn::ModelSpec spec_;
  int32_t num_prompt_;
  std::vector<int32_t> script_;
};

}  // namespace mlxcel::engine::testing

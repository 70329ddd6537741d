// Rotary position embedding (arXiv:2104.09864) and the frequency scalings of published checkpoints:
// linear, dynamic NTK, llama3 bands, YaRN (arXiv:2309.00071), LongRoPE (arXiv:2402.13753).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/config.h"
#include "nn/batch.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

namespace mlxcel::nn {

/// The rotary settings of a config.json. Both layouts are read: `rope_scaling` beside a top-level
/// `rope_theta`, and `rope_parameters`, flat or nested by layer type. `rope_type` may be spelled
/// `type`.
struct RopeConfig {
  enum class Type : uint8_t { Default, Linear, Dynamic, Llama3, Yarn, LongRope, Proportional };

  int64_t rotary_dim = 0;  // elements of a head that are rotated
  double theta = 10000.0;
  bool interleaved = false;
  Type type = Type::Default;
  double factor = 1.0;                                   // all types but Default
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // Llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // Yarn
  bool truncate = true;                                  // Yarn
  /// Yarn and LongRope: multiplies cos and sin. LongRope may have another one for long prompts.
  float attention_factor = 1.0F, long_attention_factor = 1.0F;
  /// LongRope: divisors of the frequencies, [rotary_dim / 2] each, for prompts up to
  /// original_max_positions and for longer ones.
  std::vector<float> short_factors, long_factors;
  int64_t moving = 0;  // Proportional: pairs that turn; the others of rotary_dim / 2 stay
  int64_t original_max_positions = 0;  // length of the first training
  int64_t max_positions = 0;           // max_position_embeddings
  /// Divisors of the frequencies one by one, [rotary_dim / 2] or empty: llama.cpp stores llama3
  /// scaling this way, and io hands it on as "rope_freq_factors".
  std::vector<float> freq_factors;

  /// Settings of the layers of `layer_type` ("full_attention", "sliding_attention"), which matters
  /// only where the config nests by layer type. `head_dim` times `partial_rotary_factor` are
  /// rotated. Throws Unsupported naming key and value for an unknown rope type, InvalidArgument for
  /// numbers that make no sense.
  /// `defaults` are for keys that the config leaves out.
  struct Defaults {
    double theta = 10000.0, partial_rotary_factor = 1.0;
    std::string_view theta_key = "rope_theta", partial_key = "partial_rotary_factor";
    bool interleaved = false;
    /// Whether settings that are not nested by layer type are for these layers too.
    bool flat_settings = true;
    /// Whether a dynamic scaling with `alpha` means a fixed base, theta * alpha^(d / (d - 2)).
    bool fixed_alpha = false;
  };
  static RopeConfig from(const io::Config& c, int64_t head_dim, int64_t max_positions,
                         std::string_view layer_type, const Defaults& defaults);
  static RopeConfig from(const io::Config& c, int64_t head_dim, int64_t max_positions,
                         std::string_view layer_type = {}) {
    return from(c, head_dim, max_positions, layer_type, Defaults{});
  }

  /// Positions that the scaling was made for: at least max_positions.
  int64_t usable_positions() const;
};

/// The inverse frequencies of a config, [rotary_dim / 2], at sequence length `length` (which only
/// Dynamic and LongRope depend on). Computed in f32 in the order of the published reference.
std::vector<float> rope_frequencies(const RopeConfig& c, int64_t length);

class Rope {
 public:
  explicit Rope(const RopeConfig& c);
  /// In place; q [T, H, Dh], k [T, Hk, Dh] or null, positions [T] i32. Rows of q and k may be
  /// strided.
  void apply(Tensor& q, Tensor& k, const Tensor& positions) const;
  /// The same for a batch: LongRope takes the frequencies of each sequence's prompt length.
  void apply(Tensor& q, Tensor& k, const Batch& batch) const;
  /// ModelSpec::prompt_regime of a model with these positions.
  int64_t prompt_regime() const { return long_freq_ ? long_from_ : 0; }
  /// apply(), then k and v go to the cache; k itself may be left unrotated. Not for LongRope.
  void apply_and_append(const ops::PagedKv& kv, std::span<const ops::AttentionSegment> segments,
                        Tensor& q, Tensor& k, const Tensor& v, const Tensor& positions) const;
  const Tensor& inv_freq() const { return inv_freq_; }
  float attention_factor() const { return attention_factor_; }

 private:
  struct DeviceCopy;
  const Tensor& frequencies_on(Device device, bool long_prompt) const;
  void rotate(Tensor& q, Tensor& k, const Tensor& positions, bool long_prompt) const;

  Tensor inv_freq_;   // [rotary_dim / 2] f32 on the host; Dynamic: [lengths, rotary_dim / 2]
  Tensor long_freq_;  // LongRope: for prompts longer than long_from_; else null
  std::shared_ptr<DeviceCopy> copy_;  // of both, made at the first use; shared by all layers
  int64_t long_from_ = 0;
  float long_attention_factor_ = 1.0F;
  int32_t table_begin_ = 0;  // Dynamic: position of the first row of inv_freq_
  float attention_factor_ = 1.0F;
  bool interleaved_ = false;
};

}  // namespace mlxcel::nn

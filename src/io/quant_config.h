// How a config.json says that its matrices are quantized: the "quantization" object of MLX
// (github.com/ml-explore/mlx-lm), a default for all matrices and overrides by module path, or a
// "quant_method" whose tensors say the rest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "io/config.h"

namespace mlxcel::io {

struct QuantParams {
  int64_t bits = 4, group_size = 64;
  std::string mode = "affine";  // or "mxfp4", "mxfp8", "nvfp4"
  std::string key;              // where it was declared, for messages
};

class QuantConfig {
 public:
  QuantConfig() = default;
  /// Reads "quantization", else "quantization_config", of `config` or of its "text_config". Throws
  /// InvalidArgument for values out of range and Unsupported for a default mode or a "quant_method"
  /// that no reader exists for, naming key and value.
  static QuantConfig from(const Config& config);
  /// What the config declares for a module ("model.layers.0.mlp.up_proj"); nothing when it declares
  /// no quantization.
  std::optional<QuantParams> declared(std::string_view module) const;
  /// The "quant_method" of a checkpoint that MLX did not write, else empty.
  const std::string& method() const { return method_; }
  /// Whether the config says that BitNet's scale multiplies (linear_class "autobitlinear"); it
  /// divides otherwise.
  bool ternary_scale_multiplies() const { return ternary_multiplies_; }

 private:
  std::optional<QuantParams> default_;
  std::map<std::string, std::optional<QuantParams>, std::less<>> overrides_;
  std::string source_, method_;
  bool ternary_multiplies_ = false;
};

/// Code widths and group sizes of the affine form.
constexpr bool valid_affine(int64_t bits, int64_t group) {
  return ((bits >= 1 && bits <= 6) || bits == 8) &&
         (group == 16 || group == 32 || group == 64 || group == 128);
}

}  // namespace mlxcel::io

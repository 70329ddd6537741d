#include "io/quant_config.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/error.h"
#include "io/quoted_name.h"

namespace mlxcel::io {
namespace {

constexpr std::string_view kAffine = "affine";
constexpr std::array<std::string_view, 3> kBlockModes = {"mxfp4", "mxfp8", "nvfp4"};
/// Methods whose tensors are recognised by their names and shapes.
constexpr std::array<std::string_view, 5> kMethods = {"mxfp4", "fp8", "modelopt",
                                                      "compressed-tensors", "bitnet"};

bool is_one_of(std::span<const std::string_view> list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

[[noreturn]] void unsupported(const std::string& source, const std::string& key,
                              const std::string& value) {
  throw Error(Code::Unsupported,
              fmt::format("{}: {} {} is not supported", source, quote(key), quote(value)));
}

QuantParams read_params(const Config& c, QuantParams params, std::string key) {
  params.bits = c.size_or("bits", params.bits, 1, 32);
  params.group_size = c.size_or("group_size", params.group_size, 1, 1 << 20);
  params.mode = c.str_or("mode", params.mode);
  params.key = std::move(key);
  if (params.mode == kAffine && !valid_affine(params.bits, params.group_size)) {
    throw Error(Code::Unsupported,
                fmt::format("{}: {} asks for {} bits in groups of {}; supported are 1 to 6 and 8 "
                            "bits in groups of 16, 32, 64 or 128",
                            c.source(), quote(params.key), params.bits, params.group_size));
  }
  return params;
}

void check_mode(const std::string& source, const QuantParams& params) {
  if (params.mode == kAffine || is_one_of(kBlockModes, params.mode)) return;
  throw Error(Code::Unsupported,
              fmt::format("{}: quantization mode {} ({}) is not supported; affine, mxfp4, mxfp8 "
                          "and nvfp4 are",
                          source, quote(params.mode), quote(params.key + ".mode")));
}

/// Refuses settings of a method that would change values and that no reader knows.
void check_method(const Config& q, const std::string& method, const std::string& key) {
  const std::string& source = q.source();
  if (method == "fp8") {
    if (q.str_or("fmt", "e4m3") != "e4m3") unsupported(source, key + ".fmt", q.str("fmt"));
    if (q.has("weight_block_size") &&
        q.i64s("weight_block_size") != std::vector<int64_t>{128, 128}) {
      unsupported(source, key + ".weight_block_size", q.json().find("weight_block_size")->dump());
    }
  }
  if (method == "modelopt" && q.str_or("quant_algo", "NVFP4") != "NVFP4") {
    unsupported(source, key + ".quant_algo", q.str("quant_algo"));
  }
  if (method == "compressed-tensors") {
    const std::string format = q.str_or("format", "nvfp4-pack-quantized");
    if (format != "nvfp4-pack-quantized" && format != "mxfp4-pack-quantized") {
      unsupported(source, key + ".format", format);
    }
  }
}

}  // namespace

QuantConfig QuantConfig::from(const Config& config) {
  QuantConfig out;
  out.source_ = config.source();
  std::string key;
  for (const char* candidate : {"quantization", "quantization_config", "text_config.quantization",
                                "text_config.quantization_config"}) {
    if (config.has(candidate)) {
      key = candidate;
      break;
    }
  }
  if (key.empty()) return out;
  const Config q = config.at(key);
  if (q.has("quant_method") && q.str("quant_method") != kAffine && q.str("quant_method") != "mlx") {
    out.method_ = q.str("quant_method");
    if (!is_one_of(kMethods, out.method_)) {
      throw Error(
          Code::Unsupported,
          fmt::format("{}: {} {} is not supported; use a checkpoint without quantization, an MLX "
                      "one, a GGUF file, or one quantized by {}",
                      out.source_, quote(key + ".quant_method"), quote(out.method_),
                      fmt::join(kMethods, ", ")));
    }
    check_method(q, out.method_, key);
    out.ternary_multiplies_ = q.str_or("linear_class", "bitlinear") == "autobitlinear";
    return out;
  }
  out.default_ = read_params(q, {}, key);
  check_mode(out.source_, *out.default_);
  for (const auto& [module, value] : q.json().as_object()) {
    if (value.is_bool() && !value.as_bool()) {
      out.overrides_.emplace(module, std::nullopt);
    } else if (value.is_object()) {
      const QuantParams params = read_params(q.at(module), *out.default_, key + "." + module);
      check_mode(out.source_, params);
      out.overrides_.emplace(module, params);
    }
  }
  return out;
}

std::optional<QuantParams> QuantConfig::declared(std::string_view module) const {
  const auto it = overrides_.find(module);
  return it == overrides_.end() ? default_ : it->second;
}

}  // namespace mlxcel::io

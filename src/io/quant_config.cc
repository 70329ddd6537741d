#include "io/quant_config.h"

#include <fmt/core.h>

#include "base/error.h"
#include "io/quoted_name.h"

namespace mlxcel::io {
namespace {

constexpr std::string_view kAffine = "affine";

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

Error unsupported_mode(const std::string& source, const QuantParams& params) {
  return {Code::Unsupported,
          fmt::format("{}: quantization mode {} ({}) is not supported; only \"affine\" is", source,
                      quote(params.mode), quote(params.key + ".mode"))};
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
    throw Error(
        Code::Unsupported,
        fmt::format("{}: {} {} is not supported; use a checkpoint without quantization, an "
                    "MLX affine one or a GGUF file",
                    out.source_, quote(key + ".quant_method"), quote(q.str("quant_method"))));
  }
  out.default_ = read_params(q, {}, key);
  if (out.default_->mode != kAffine) throw unsupported_mode(out.source_, *out.default_);
  for (const auto& [module, value] : q.json().as_object()) {
    if (value.is_bool() && !value.as_bool()) {
      out.overrides_.emplace(module, std::nullopt);
    } else if (value.is_object()) {
      out.overrides_.emplace(module, read_params(q.at(module), *out.default_, key + "." + module));
    }
  }
  return out;
}

std::optional<QuantParams> QuantConfig::declared(std::string_view module) const {
  const auto it = overrides_.find(module);
  return it == overrides_.end() ? default_ : it->second;
}

void QuantConfig::require_affine(std::string_view module) const {
  const auto params = declared(module);
  if (params && params->mode != kAffine) throw unsupported_mode(source_, *params);
}

}  // namespace mlxcel::io

#include "apps/memory_estimate.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "apps/kv_geometry.h"
#include "base/env.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "io/checkpoint.h"
#include "io/gguf.h"
#include "models/family.h"

namespace mlxcel::apps {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

int64_t add(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_add_overflow(a, b, &out) ? kMax : out;
}

int64_t mul(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? kMax : out;
}

int64_t scaled(int64_t bytes, double factor) {
  const double out = static_cast<double>(bytes) * factor;
  return out >= 9.2e18 ? kMax : static_cast<int64_t>(std::llround(out));
}

/// A factor from the environment; what is no positive number is said and replaced.
double factor_from_env(const char* name, double fallback) {
  const auto text = env::get(name);
  if (!text) return fallback;
  char* end = nullptr;
  const double value = std::strtod(text->c_str(), &end);
  if (end == text->c_str() + text->size() && std::isfinite(value) && value > 0) return value;
  log::warn("{}: '{}' is no positive number; {} is used", name, *text, fallback);
  return fallback;
}

/// Bytes of tensor data in one SafeTensors file: everything behind its header.
int64_t safetensors_data_bytes(const fs::path& path) {
  if (std::error_code ignored; !fs::is_regular_file(path, ignored)) {
    throw Error(
        Code::Corrupt,
        fmt::format("{}: not a file, or a link to a file that is gone; fetch the model again",
                    path.string()));
  }
  const auto size = static_cast<int64_t>(fs::file_size(path));
  std::ifstream file(path, std::ios::binary);
  unsigned char raw[8] = {};
  file.read(reinterpret_cast<char*>(raw), 8);
  uint64_t header = 0;
  for (int i = 7; i >= 0; --i) header = header << 8 | raw[i];
  if (!file || size < 8 || header > static_cast<uint64_t>(size - 8)) {
    throw Error(Code::Corrupt, fmt::format("{}: the header length lies beyond the end of the file",
                                           path.string()));
  }
  return size - 8 - static_cast<int64_t>(header);
}

/// metadata.total_size of the index, when that is there and plausible.
std::optional<int64_t> index_total(const std::string& dir) {
  const std::string path = dir + "/model.safetensors.index.json";
  if (!file_exists(path)) return std::nullopt;
  const Result<Json> index = Json::parse(read_file(path, uint64_t{64} << 20));
  if (!index.ok()) return std::nullopt;
  const Json* metadata = index.value().find("metadata");
  const Json* total = metadata == nullptr ? nullptr : metadata->find("total_size");
  if (total == nullptr || !total->is_number()) return std::nullopt;
  const double value = total->as_double();
  if (!(value > 0) || value > 1e18) return std::nullopt;
  return static_cast<int64_t>(value);
}

/// Text from a configuration for the terminal: control characters become '?'.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return text;
}

void estimate_weights(const std::string& path, const io::Config& config, MemoryEstimate& e) {
  if (!is_directory(path)) {
    e.weights = io::GgufFile::open(path)->tensor_bytes();
    e.weights_source = "gguf_header";
    return;
  }
  if (const auto total = index_total(path)) {
    e.weights = *total;
    e.weights_source = "safetensors_index";
    return;
  }
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() != ".safetensors") continue;
    e.weights = add(e.weights, safetensors_data_bytes(entry.path()));
    e.weights_source = "safetensors_header";
  }
  if (!e.weights_source.empty()) return;
  const int64_t parameters = analytical_parameters(config);
  e.weights_source = parameters > 0 ? "analytical_config" : "fallback";
  e.weights = mul(parameters > 0 ? parameters : int64_t{7'000'000'000}, 2);
}

int64_t activation_bytes(const io::Config& text, const EstimateInputs& inputs) {
  const int64_t hidden = text.size_or("hidden_size", 4096);
  const int64_t inner = text.size_or("intermediate_size", mul(hidden, 4));
  const int64_t vocab = text.size_or("vocab_size", 0, 0);
  const int64_t rows = mul(inputs.batch, std::min<int64_t>(inputs.context_tokens, 512));
  const double factor = factor_from_env("MLXCEL_ACTIVATION_MULT", 2.0);
  return add(scaled(mul(mul(rows, add(hidden, inner)), 2), factor),
             mul(mul(inputs.batch, vocab), 2));
}

std::string cache_mode(const EstimateInputs& inputs) {
  if (inputs.cache_type_k == inputs.cache_type_v) return inputs.cache_type_k;
  return fmt::format("k={}, v={}", inputs.cache_type_k, inputs.cache_type_v);
}

Json number_or_null(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); }

}  // namespace

std::string byte_text(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  constexpr double kMiB = 1024.0 * 1024.0;
  if (value >= kMiB * 1024) return fmt::format("{:.2f} GiB ({} bytes)", value / kMiB / 1024, bytes);
  if (value >= kMiB) return fmt::format("{:.1f} MiB ({} bytes)", value / kMiB, bytes);
  return fmt::format("{} bytes", bytes);
}

int64_t available_memory() {
  if (const auto limit = env::get("MLXCEL_MEMORY_LIMIT")) {
    const int64_t bytes =
        with_context("MLXCEL_MEMORY_LIMIT", [&] { return env::parse_size(*limit); });
    if (bytes > 0) return bytes;
  }
  std::ifstream file("/proc/meminfo");
  int64_t total = 0;
  for (std::string line; std::getline(file, line);) {
    const auto kib = [&] { return std::strtoll(line.c_str() + line.find(':') + 1, nullptr, 10); };
    if (line.starts_with("MemAvailable:")) return kib() * 1024;
    if (line.starts_with("MemTotal:")) total = kib() * 1024;
  }
  return total;
}

io::Config model_config(const std::string& path) {
  if (!is_directory(path)) return io::open_checkpoint(path).config;
  if (!file_exists(path + "/config.json")) {
    throw Error(Code::NotFound, fmt::format("{} has no config.json", path));
  }
  return io::Config::load(path + "/config.json");
}

MemoryEstimate estimate_memory(const std::string& path, const std::string& model_name,
                               const EstimateInputs& inputs) {
  const io::Config config = model_config(path);
  const io::Config text = text_section(config);
  MemoryEstimate e;
  e.inputs = inputs;
  e.model = model_name;
  e.model_type = config.str_or("model_type", "");
  for (const models::Family* family : models::registry()) {
    const auto& types = family->model_types;
    if (std::find(types.begin(), types.end(), e.model_type) != types.end()) {
      e.family = std::string(family->name);
    }
  }
  estimate_weights(path, config, e);

  const KvGeometry kv = kv_geometry(config);
  e.kv_detail = kv.detail;
  const auto per_token = [&](int64_t k_bytes, int64_t v_bytes) {
    return add(mul(kv.k_elements_per_token(), k_bytes), mul(kv.v_elements_per_token(), v_bytes));
  };
  e.kv_per_token_fp16 = per_token(2, 2);
  e.kv_per_token_int8 = per_token(1, 1);
  const auto width = [](const std::string& type) { return type == "int8" ? 1 : 2; };
  for (const KvGroup& g : kv.groups) {
    const int64_t tokens = g.cached_tokens(inputs.context_tokens);
    const int64_t bytes = add(mul(g.k_elements, width(inputs.cache_type_k)),
                              mul(g.v_elements, width(inputs.cache_type_v)));
    e.kv_total = add(e.kv_total, mul(mul(mul(bytes, tokens), g.layers), inputs.batch));
  }
  e.activation = activation_bytes(text, inputs);
  e.headroom_factor = factor_from_env("MLXCEL_HEADROOM_FACTOR", 1.20);
  e.allocator_overhead = scaled(add(e.weights, e.kv_total), std::max(0.0, e.headroom_factor - 1.0));
  e.headroom = add(e.allocator_overhead, e.activation);
  e.available = available_memory();
  e.total = add(add(e.weights, e.kv_total), e.headroom);
  e.fits = e.total <= e.available;
  return e;
}

std::string estimate_banner(const MemoryEstimate& e) {
  std::string out = "=== Memory Estimate ===\n";
  const auto line = [&](const char* label, const std::string& value) {
    out += fmt::format("{:<16}{}\n", label, value);
  };
  line("Model:",
       e.model_type.empty() ? e.model : fmt::format("{} ({})", e.model, one_line(e.model_type)));
  line("Context length:",
       fmt::format("{} tokens (batch = {})", e.inputs.context_tokens, e.inputs.batch));
  line("Quant hint:", e.inputs.quant);
  line("KV dtype:", cache_mode(e.inputs));
  out += '\n';
  line("Weights:", fmt::format("{} ({})", byte_text(e.weights), e.weights_source));
  line("KV cache:", fmt::format("{} ({})", byte_text(e.kv_total), e.kv_detail));
  line("  per token:", byte_text(e.kv_per_token_fp16.value_or(0)) + " at fp16");
  line("Activation:", byte_text(e.activation));
  line("Allocator ovhd:", fmt::format("{} (factor {:.2f}x on weights+kv)",
                                      byte_text(e.allocator_overhead), e.headroom_factor));
  out += "-----\n";
  line("Total estimate:", byte_text(e.total));
  line("Available:", byte_text(e.available));
  out += e.fits ? fmt::format("\nFITS: {} of headroom\n", byte_text(e.available - e.total))
                : fmt::format("\nDOES NOT FIT: {} over budget\n", byte_text(e.total - e.available));
  return out;
}

Json estimate_json(const MemoryEstimate& e) {
  Json inputs = Json::object();
  inputs.set("max_tokens", e.inputs.context_tokens);
  inputs.set("batch", e.inputs.batch);
  inputs.set("kv_cache_mode", cache_mode(e.inputs));
  inputs.set("quant", e.inputs.quant);
  Json per_token = Json::object();
  per_token.set("fp16", number_or_null(e.kv_per_token_fp16));
  per_token.set("int8", number_or_null(e.kv_per_token_int8));
  per_token.set("turbo4", Json());
  Json out = Json::object();
  out.set("model", e.model);
  out.set("model_type", e.model_type.empty() ? Json() : Json(e.model_type));
  out.set("family", e.family ? Json(*e.family) : Json());
  out.set("inputs", std::move(inputs));
  out.set("weights_bytes", e.weights);
  out.set("weights_source", e.weights_source);
  out.set("kv_bytes_per_token", std::move(per_token));
  out.set("kv_bytes_total", e.kv_total);
  out.set("kv_detail", e.kv_detail);
  out.set("per_slot_overhead_bytes", Json());
  out.set("activation_bytes", e.activation);
  out.set("backend_inflight_bytes", 0);
  out.set("headroom_bytes", e.headroom);
  out.set("headroom_factor", e.headroom_factor);
  out.set("budget_bytes", e.available);
  out.set("total_bytes", e.total);
  out.set("fits", e.fits);
  return out;
}

}  // namespace mlxcel::apps

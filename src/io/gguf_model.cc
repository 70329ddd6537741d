#include "io/gguf_model.h"

#include <fmt/core.h>

#include <cmath>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/utf8.h"
#include "io/gguf_archs.h"
#include "io/quoted_name.h"

namespace mlxcel::io {
namespace {

std::string arch_of(const GgufFile& file) {
  std::string arch = file.str_or("general.architecture", "");
  if (arch.empty()) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: metadata key \"general.architecture\" is missing", file.path()));
  }
  return arch;
}

// rope_scaling as transformers writes it. llama.cpp multiplies its attention factor with YaRN's own
// 0.1 ln(factor) + 1 (arXiv:2309.00071, section 3.4); transformers takes the product.
void add_rope_scaling(Json& config, const GgufMetadata& m, const GgufFile& file) {
  const std::string type = m.text("rope.scaling.type");
  const double factor = m.real("rope.scaling.factor", m.real("rope.scale_linear", 0.0));
  if (type == "none" || type == "longrope" || (type.empty() && factor == 0.0)) return;
  if (!type.empty() && type != "linear" && type != "yarn") {
    throw Error(Code::Unsupported,
                fmt::format("{}: metadata key {} is {}; \"none\", \"linear\" and "
                            "\"yarn\" are supported",
                            file.path(), quote(m.key("rope.scaling.type")), quote(type)));
  }
  if (!(factor > 0.0)) {
    if (factor == 0.0) return;
    throw Error(Code::InvalidArgument,
                fmt::format("{}: metadata key {} must be positive", file.path(),
                            quote(m.key("rope.scaling.factor"))));
  }
  Json scaling = Json::object();
  scaling.set("rope_type", type.empty() ? "linear" : type);
  scaling.set("factor", factor);
  if (m.has("rope.scaling.original_context_length")) {
    scaling.set("original_max_position_embeddings",
                m.integer("rope.scaling.original_context_length", 0));
  }
  if (type == "yarn") {
    const double attention = m.real("rope.scaling.attn_factor", 1.0);
    if (attention != 1.0) {
      scaling.set("attention_factor", attention * (0.1 * std::log(factor) + 1.0));
    }
    if (m.has("rope.scaling.yarn_beta_fast")) {
      scaling.set("beta_fast", m.real("rope.scaling.yarn_beta_fast", 32.0));
    }
    if (m.has("rope.scaling.yarn_beta_slow")) {
      scaling.set("beta_slow", m.real("rope.scaling.yarn_beta_slow", 1.0));
    }
  }
  config.set("rope_scaling", std::move(scaling));
}

// The factors in a tensor, or nothing when it is not there.
Json rope_factors(const GgufFile& file, const char* name) {
  constexpr int64_t kMaxFactors = 4096;
  Json list = Json::array();
  const GgufTensor* tensor = file.tensor(name);
  if (tensor == nullptr) return list;
  const auto count = static_cast<int64_t>(tensor->data.size() / sizeof(float));
  if (tensor->type != GgmlType::F32 || tensor->dims.size() != 1 || count > kMaxFactors) {
    throw Error(Code::Corrupt, fmt::format("{}: tensor \"{}\" must hold at most {} F32 factors",
                                           file.path(), name, kMaxFactors));
  }
  std::vector<float> factors(static_cast<size_t>(count));
  if (count > 0) convert_to_f32(DType::F32, tensor->data.data(), factors.data(), count);
  for (const float f : factors) {
    if (!std::isfinite(f) || f <= 0.0F) {
      throw Error(Code::Corrupt, fmt::format("{}: tensor \"{}\" holds {}", file.path(), name, f));
    }
    list.push_back(double{f});
  }
  return list;
}

// LongRoPE comes as two tensors; llama3 scaling as one.
void add_rope_factors(Json& config, const GgufMetadata& m, const GgufFile& file) {
  Json factors = rope_factors(file, "rope_freqs.weight");
  if (factors.size() > 0) config.set("rope_freq_factors", std::move(factors));
  Json longer = rope_factors(file, "rope_factors_long.weight");
  Json shorter = rope_factors(file, "rope_factors_short.weight");
  if (longer.size() == 0 || shorter.size() == 0) {
    if (m.text("rope.scaling.type") != "longrope") return;
    throw Error(Code::Corrupt,
                fmt::format("{}: metadata key {} is \"longrope\", but the tensors "
                            "\"rope_factors_long.weight\" and \"rope_factors_short.weight\" are "
                            "not both there",
                            file.path(), quote(m.key("rope.scaling.type"))));
  }
  Json scaling = Json::object();
  scaling.set("rope_type", "longrope");
  scaling.set("long_factor", std::move(longer));
  scaling.set("short_factor", std::move(shorter));
  if (m.has("rope.scaling.original_context_length")) {
    scaling.set("original_max_position_embeddings",
                m.integer("rope.scaling.original_context_length", 0));
  }
  if (m.has("rope.scaling.attn_factor")) {
    scaling.set("attention_factor", m.real("rope.scaling.attn_factor", 1.0));
  }
  config.set("rope_scaling", std::move(scaling));
}

// The integer at `key`, or -1; a copy, because config.set() moves what find() points to.
int64_t integer_at(const Json& config, std::string_view key) {
  const Json* value = config.find(key);
  return value == nullptr ? -1 : value->as_int();
}

void add_head_dim(Json& config, const GgufMetadata& m, const GgufFile& file) {
  const int64_t heads = integer_at(config, "num_attention_heads");
  const int64_t hidden = integer_at(config, "hidden_size");
  if (config.find("head_dim") == nullptr && heads > 0 && hidden > 0 && hidden % heads == 0) {
    config.set("head_dim", hidden / heads);
  }
  if (heads > 0 && config.find("num_key_value_heads") == nullptr) {
    config.set("num_key_value_heads", heads);
  }
  const int64_t dim = integer_at(config, "head_dim");
  if (dim < 0) return;
  const int64_t values = m.integer("attention.value_length", dim);
  if (values != dim) {
    throw Error(Code::Unsupported,
                fmt::format("{}: metadata key {} is {}, unlike the key length {}", file.path(),
                            quote(m.key("attention.value_length")), values, dim));
  }
  const int64_t rotary = m.integer("rope.dimension_count", dim);
  if (m.has("rope.dimension_count") && dim > 0) {
    config.set("partial_rotary_factor", static_cast<double>(rotary) / static_cast<double>(dim));
  }
}

void add_tokens(Json& config, const GgufFile& file) {
  const GgufTensor* embedding = file.tensor("token_embd.weight");
  const GgufFile::Strings* tokens = file.strings("tokenizer.ggml.tokens");
  if (embedding != nullptr && embedding->dims.size() == 2) {
    config.set("vocab_size", embedding->dims[0]);
  } else if (tokens != nullptr) {
    config.set("vocab_size", static_cast<int64_t>(tokens->size()));
  }
  if (embedding != nullptr) {
    config.set("tie_word_embeddings", file.tensor("output.weight") == nullptr);
  }
  const int64_t bos = file.i64_or("tokenizer.ggml.bos_token_id", -1);
  if (bos >= 0) config.set("bos_token_id", bos);
  // Turns of a chat may end with another token than documents do; either ends a generation.
  Json ends = Json::array();
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const int64_t id = file.i64_or(key, -1);
    if (id >= 0 && (ends.size() == 0 || ends.as_array()[0].as_int() != id)) ends.push_back(id);
  }
  if (ends.size() == 1) {
    const int64_t id = ends.as_array()[0].as_int();
    config.set("eos_token_id", id);
  } else if (ends.size() > 1) {
    config.set("eos_token_id", std::move(ends));
  }
}

}  // namespace

Json gguf_config(const GgufFile& file) {
  const std::string arch = arch_of(file);
  const GgufArch* row = find_gguf_arch(arch);
  const GgufMetadata m(file, arch);
  Json config = Json::object();
  if (row != nullptr) config.set("architectures", Json::array({Json(row->class_name)}));
  // Mixture-of-experts models of this architecture are a family of their own elsewhere.
  const bool experts = m.has("expert_count") && m.integer("expert_count", 0) > 0;
  const std::string_view model_type = row == nullptr ? std::string_view(arch) : row->model_type;
  config.set("model_type", experts && arch == "llama" ? std::string_view("mixtral") : model_type);
  for (const GgufKeyRow& key : row == nullptr ? llama_gguf_keys() : row->keys) {
    if (!m.has(key.gguf)) continue;
    config.set(key.hf, key.real ? Json(m.real(key.gguf, 0.0)) : Json(m.integer(key.gguf, 0)));
  }
  if (m.has("attention.layer_norm_rms_epsilon")) config.set("hidden_act", "silu");
  add_head_dim(config, m, file);
  add_rope_scaling(config, m, file);
  add_rope_factors(config, m, file);
  add_tokens(config, file);
  if (row != nullptr && row->adjust != nullptr) row->adjust(config, m);
  return config;
}

Json gguf_tokenizer_config(const GgufFile& file) {
  Json config = Json::object();
  if (file.find("tokenizer.chat_template") != nullptr) {
    config.set("chat_template", utf8::repair(file.str_or("tokenizer.chat_template", "")));
  }
  for (const char* flag : {"add_bos_token", "add_eos_token"}) {
    const std::string key = fmt::format("tokenizer.ggml.{}", flag);
    if (file.find(key) != nullptr) config.set(flag, file.flag_or(key, false));
  }
  const GgufFile::Strings* tokens = file.strings("tokenizer.ggml.tokens");
  constexpr std::pair<std::string_view, std::string_view> kSpecial[] = {
      {"bos_token_id", "bos_token"},       {"eos_token_id", "eos_token"},
      {"unknown_token_id", "unk_token"},   {"padding_token_id", "pad_token"},
      {"seperator_token_id", "sep_token"}, {"cls_token_id", "cls_token"},
      {"mask_token_id", "mask_token"}};
  for (const auto& [gguf, hf] : kSpecial) {
    const int64_t id = file.i64_or(fmt::format("tokenizer.ggml.{}", gguf), -1);
    if (tokens == nullptr || id < 0 || static_cast<uint64_t>(id) >= tokens->size()) continue;
    config.set(hf, utf8::repair((*tokens)[static_cast<size_t>(id)]));
  }
  return config;
}

GgufTensorName gguf_tensor_name(const GgufFile& file, const Config& config, std::string_view name) {
  const std::string arch = arch_of(file);
  const GgufArch* row = find_gguf_arch(arch);
  if (row == nullptr) {
    const std::string known = known_gguf_archs();
    throw Error(Code::Unsupported,
                fmt::format("{}: GGUF architecture {} is not supported; supported are {}",
                            file.path(), quote(arch), known));
  }
  const size_t dot = name.rfind('.');
  const std::string_view leaf = dot == std::string_view::npos ? "" : name.substr(dot);
  std::string_view stem = name.substr(0, dot);
  if (leaf != ".weight" && leaf != ".bias") return {std::string(name)};
  std::string prefix;
  std::span<const GgufNameRow> rows = row->globals;
  if (stem.starts_with("blk.")) {
    const size_t end = stem.find('.', 4);
    if (end == std::string_view::npos) return {std::string(name)};
    prefix = fmt::format("model.layers.{}.", stem.substr(4, end - 4));
    stem = stem.substr(end + 1);
    rows = row->blocks;
  }
  for (const GgufNameRow& each : rows) {
    if (each.gguf != stem) continue;
    GgufTensorName out{fmt::format("{}{}{}", prefix, each.hf, leaf)};
    if (row->interleaved_qk && !prefix.empty() && (stem == "attn_q" || stem == "attn_k")) {
      out.permute_heads =
          config.size(stem == "attn_q" ? "num_attention_heads" : "num_key_value_heads", 1, 1 << 20);
    }
    return out;
  }
  return {std::string(name)};
}

}  // namespace mlxcel::io

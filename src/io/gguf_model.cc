#include "io/gguf_model.h"

#include <fmt/core.h>

#include <cmath>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/utf8.h"
#include "io/quoted_name.h"

namespace mlxcel::io {
namespace {

struct NameRow {
  std::string_view gguf, hf;  // without ".weight" and ".bias"
};

struct KeyRow {
  std::string_view gguf;  // after "<architecture>."
  std::string_view hf;
  bool real = false;  // else an integer
};

// One architecture. A new family is a new row, with tables of its own where the shared ones differ.
struct ArchRow {
  std::string_view name;        // general.architecture
  std::string_view model_type;  // config.json
  std::string_view class_name;  // config.json, architectures[0]
  bool interleaved_qk = false;  // q and k rows are stored in rotary pairs
  std::span<const KeyRow> keys;
  std::span<const NameRow> globals, blocks;
};

constexpr KeyRow kDecoderKeys[] = {
    {"block_count", "num_hidden_layers"},
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true},
    {"attention.sliding_window", "sliding_window"},
    {"rope.freq_base", "rope_theta", true},
    {"expert_count", "num_local_experts"},
    {"expert_used_count", "num_experts_per_tok"},
};

constexpr NameRow kDecoderGlobals[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"rope_freqs", "rope_freqs"},
};

constexpr NameRow kDecoderBlocks[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};

constexpr ArchRow kArchs[] = {
    {"llama", "llama", "LlamaForCausalLM", true, kDecoderKeys, kDecoderGlobals, kDecoderBlocks},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", false, kDecoderKeys, kDecoderGlobals, kDecoderBlocks},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", false, kDecoderKeys, kDecoderGlobals, kDecoderBlocks},
};

const ArchRow* find_arch(std::string_view name) {
  for (const ArchRow& row : kArchs) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::string arch_of(const GgufFile& file) {
  std::string arch = file.str_or("general.architecture", "");
  if (arch.empty()) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: metadata key \"general.architecture\" is missing", file.path()));
  }
  return arch;
}

// Reads metadata below the architecture's prefix.
class Metadata {
 public:
  Metadata(const GgufFile& file, std::string arch) : file_(file), arch_(std::move(arch)) {}
  std::string key(std::string_view suffix) const { return fmt::format("{}.{}", arch_, suffix); }
  bool has(std::string_view suffix) const { return file_.find(key(suffix)) != nullptr; }

  double real(std::string_view suffix, double fallback) const {
    const double v = file_.f64_or(key(suffix), fallback);
    if (!std::isfinite(v)) {
      throw Error(Code::InvalidArgument, fmt::format("{}: metadata key {} must be finite",
                                                     file_.path(), quote(key(suffix))));
    }
    return v;
  }

  // An integer, or a list of one value for every layer.
  int64_t integer(std::string_view suffix, int64_t fallback) const {
    const GgufFile::Value* value = file_.find(key(suffix));
    const auto* list = value == nullptr ? nullptr : std::get_if<GgufNumbers>(value);
    if (list == nullptr || !list->integral() || list->count == 0) {
      return file_.i64_or(key(suffix), fallback);
    }
    const int64_t first = list->i64(0);
    for (uint64_t i = 1; i < list->count; ++i) {
      if (list->i64(i) != first) {
        throw Error(Code::Unsupported,
                    fmt::format("{}: metadata key {} differs from layer to layer, which is not "
                                "supported",
                                file_.path(), quote(key(suffix))));
      }
    }
    return first;
  }
  std::string text(std::string_view suffix) const { return file_.str_or(key(suffix), ""); }

 private:
  const GgufFile& file_;
  std::string arch_;
};

// rope_scaling as transformers writes it. llama.cpp multiplies its attention factor with YaRN's own
// 0.1 ln(factor) + 1 (arXiv:2309.00071, section 3.4); transformers takes the product.
void add_rope_scaling(Json& config, const Metadata& m, const GgufFile& file) {
  const std::string type = m.text("rope.scaling.type");
  const double factor = m.real("rope.scaling.factor", m.real("rope.scale_linear", 0.0));
  if (type == "none" || (type.empty() && factor == 0.0)) return;
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

void add_rope_factors(Json& config, const GgufFile& file) {
  constexpr int64_t kMaxFactors = 4096;
  const GgufTensor* tensor = file.tensor("rope_freqs.weight");
  if (tensor == nullptr) return;
  const auto count = static_cast<int64_t>(tensor->data.size() / sizeof(float));
  if (tensor->type != GgmlType::F32 || tensor->dims.size() != 1 || count > kMaxFactors) {
    throw Error(Code::Corrupt, fmt::format("{}: tensor \"rope_freqs.weight\" must hold at most {} "
                                           "F32 factors",
                                           file.path(), kMaxFactors));
  }
  std::vector<float> factors(static_cast<size_t>(count));
  if (count > 0) convert_to_f32(DType::F32, tensor->data.data(), factors.data(), count);
  Json list = Json::array();
  for (const float f : factors) {
    if (!std::isfinite(f) || f <= 0.0F) {
      throw Error(Code::Corrupt,
                  fmt::format("{}: tensor \"rope_freqs.weight\" holds {}", file.path(), f));
    }
    list.push_back(double{f});
  }
  config.set("rope_freq_factors", std::move(list));
}

// The integer at `key`, or -1; a copy, because config.set() moves what find() points to.
int64_t integer_at(const Json& config, std::string_view key) {
  const Json* value = config.find(key);
  return value == nullptr ? -1 : value->as_int();
}

void add_head_dim(Json& config, const Metadata& m, const GgufFile& file) {
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
  if (rotary != dim && dim > 0) {
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
  const ArchRow* row = find_arch(arch);
  const Metadata m(file, arch);
  Json config = Json::object();
  if (row != nullptr) config.set("architectures", Json::array({Json(row->class_name)}));
  // Mixture-of-experts models of this architecture are a family of their own elsewhere.
  const bool experts = m.has("expert_count") && m.integer("expert_count", 0) > 0;
  const std::string_view model_type = row == nullptr ? std::string_view(arch) : row->model_type;
  config.set("model_type", experts && arch == "llama" ? std::string_view("mixtral") : model_type);
  for (const KeyRow& key : row == nullptr ? std::span<const KeyRow>(kDecoderKeys) : row->keys) {
    if (!m.has(key.gguf)) continue;
    config.set(key.hf, key.real ? Json(m.real(key.gguf, 0.0)) : Json(m.integer(key.gguf, 0)));
  }
  if (m.has("attention.layer_norm_rms_epsilon")) config.set("hidden_act", "silu");
  add_head_dim(config, m, file);
  add_rope_scaling(config, m, file);
  add_rope_factors(config, file);
  add_tokens(config, file);
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
  const ArchRow* row = find_arch(arch);
  if (row == nullptr) {
    std::string known;
    for (const ArchRow& each : kArchs) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
    }
    throw Error(Code::Unsupported,
                fmt::format("{}: GGUF architecture {} is not supported; supported are {}",
                            file.path(), quote(arch), known));
  }
  const size_t dot = name.rfind('.');
  const std::string_view leaf = dot == std::string_view::npos ? "" : name.substr(dot);
  std::string_view stem = name.substr(0, dot);
  if (leaf != ".weight" && leaf != ".bias") return {std::string(name)};
  std::string prefix;
  std::span<const NameRow> rows = row->globals;
  if (stem.starts_with("blk.")) {
    const size_t end = stem.find('.', 4);
    if (end == std::string_view::npos) return {std::string(name)};
    prefix = fmt::format("model.layers.{}.", stem.substr(4, end - 4));
    stem = stem.substr(end + 1);
    rows = row->blocks;
  }
  for (const NameRow& each : rows) {
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

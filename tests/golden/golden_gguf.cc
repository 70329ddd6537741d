// GGUF twins of golden checkpoints: names, row order and metadata as llama.cpp's converter writes
// them.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include "golden/golden_case.h"
#include "testing/gguf_writer.h"

namespace mlxcel::testing {
namespace {

io::GgmlType type_of(std::string_view kind) {
  static const std::map<std::string, io::GgmlType, std::less<>> types = {
      {"f32", io::GgmlType::F32},   {"f16", io::GgmlType::F16},   {"bf16", io::GgmlType::BF16},
      {"q4_0", io::GgmlType::Q4_0}, {"q4_1", io::GgmlType::Q4_1}, {"q5_0", io::GgmlType::Q5_0},
      {"q5_1", io::GgmlType::Q5_1}, {"q8_0", io::GgmlType::Q8_0}, {"q2_K", io::GgmlType::Q2_K},
      {"q3_K", io::GgmlType::Q3_K}, {"q4_K", io::GgmlType::Q4_K}, {"q5_K", io::GgmlType::Q5_K},
      {"q6_K", io::GgmlType::Q6_K}};
  return types.find(kind)->second;
}

uint32_t u32(int64_t value) { return static_cast<uint32_t>(value); }

std::string gguf_name(const std::string& name) {
  static const std::vector<std::pair<std::string, std::string>> kWords = {
      {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},
      {"lm_head", "output"},
      {"model.layers", "blk"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", "ffn_norm"},
  };
  std::string out = name;
  for (const auto& [from, to] : kWords) {
    if (const size_t at = out.find(from); at != std::string::npos) out.replace(at, from.size(), to);
  }
  return out;
}

/// llama.cpp rotates neighbouring pairs, so the converter interleaves the two halves of every query
/// and key head: row (head, j, half) of the file is row (head, half, j) of the checkpoint.
std::string interleave_rows(const std::string& bytes, int64_t rows, int64_t heads) {
  const auto row_bytes = bytes.size() / static_cast<size_t>(rows);
  const int64_t head_dim = rows / heads;
  std::string out;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t head = r / head_dim, j = r % head_dim / 2, half = r % 2;
    const int64_t from = head * head_dim + half * (head_dim / 2) + j;
    out += bytes.substr(static_cast<size_t>(from) * row_bytes, row_bytes);
  }
  return out;
}

int64_t int_or(const Json& c, std::string_view key, int64_t fallback) {
  const Json* v = c.find(key);
  return v != nullptr && v->is_int() ? v->as_int() : fallback;
}

double real_or(const Json& c, std::string_view key, double fallback) {
  const Json* v = c.find(key);
  return v != nullptr && v->is_number() ? v->as_double() : fallback;
}

const Json* rotary(const Json& c) {
  const Json* r = c.find("rope_scaling");
  return r != nullptr && r->is_object() ? r : c.find("rope_parameters");
}

std::string rotary_type(const Json& c) {
  const Json* r = rotary(c);
  if (r == nullptr) return "default";
  const Json* type = r->find("rope_type");
  if (type == nullptr) type = r->find("type");
  return type != nullptr ? type->as_string() : "default";
}

/// Per-dimension divisors of the frequencies that stand for llama3 scaling in GGUF.
std::vector<float> llama3_factors(const Json& r, double theta, int64_t head_dim) {
  const double factor = r.find("factor")->as_double();
  const double low = r.find("low_freq_factor")->as_double();
  const double high = r.find("high_freq_factor")->as_double();
  const double original = r.find("original_max_position_embeddings")->as_double();
  std::vector<float> out;
  for (int64_t i = 0; i < head_dim; i += 2) {
    const double freq = std::pow(theta, -static_cast<double>(i) / static_cast<double>(head_dim));
    const double wavelength = 2.0 * std::numbers::pi / freq;
    double f = 1.0;
    if (wavelength > original / low) {
      f = factor;
    } else if (wavelength >= original / high) {
      const double smooth = (original / wavelength - low) / (high - low);
      f = 1.0 / ((1.0 - smooth) / factor + smooth);
    }
    out.push_back(static_cast<float>(f));
  }
  return out;
}

void write_rotary(GgufWriter& w, const Json& c, const std::string& arch, int64_t head_dim) {
  const Json* r = rotary(c);
  double theta = real_or(c, "rope_theta", 10000.0);
  if (r != nullptr) theta = real_or(*r, "rope_theta", theta);
  w.f32(arch + ".rope.freq_base", static_cast<float>(theta));
  w.u32(arch + ".rope.dimension_count", u32(head_dim));
  const std::string type = rotary_type(c);
  if (type == "linear" || type == "yarn") {
    w.str(arch + ".rope.scaling.type", type);
    w.f32(arch + ".rope.scaling.factor", static_cast<float>(r->find("factor")->as_double()));
  }
  if (type == "yarn") {
    w.u32(arch + ".rope.scaling.original_context_length",
          u32(r->find("original_max_position_embeddings")->as_int()));
  }
  if (type == "llama3") {
    w.add("rope_freqs.weight", {head_dim / 2}, llama3_factors(*r, theta, head_dim));
  }
}

void write_metadata(GgufWriter& w, const Json& c, const std::string& arch) {
  const int64_t heads = c.find("num_attention_heads")->as_int();
  const int64_t even = c.find("hidden_size")->as_int() / heads;
  const int64_t head_dim = int_or(c, "head_dim", arch == "qwen3" ? 128 : even);
  const int64_t vocab = c.find("vocab_size")->as_int();
  w.str("general.architecture", arch);
  w.u32(arch + ".vocab_size", u32(vocab));
  w.u32(arch + ".context_length", u32(c.find("max_position_embeddings")->as_int()));
  w.u32(arch + ".embedding_length", u32(c.find("hidden_size")->as_int()));
  w.u32(arch + ".block_count", u32(c.find("num_hidden_layers")->as_int()));
  w.u32(arch + ".feed_forward_length", u32(c.find("intermediate_size")->as_int()));
  w.u32(arch + ".attention.head_count", u32(heads));
  w.u32(arch + ".attention.head_count_kv", u32(int_or(c, "num_key_value_heads", heads)));
  w.u32(arch + ".attention.key_length", u32(head_dim));
  w.u32(arch + ".attention.value_length", u32(head_dim));
  w.f32(arch + ".attention.layer_norm_rms_epsilon",
        static_cast<float>(c.find("rms_norm_eps")->as_double()));
  std::vector<std::string> tokens;
  for (int64_t i = 0; i < vocab; ++i) tokens.push_back("t" + std::to_string(i));
  w.str("tokenizer.ggml.model", "gpt2");
  w.strings("tokenizer.ggml.tokens", tokens);
  write_rotary(w, c, arch, head_dim);
}

}  // namespace

bool has_gguf_twin(const GoldenCase& c) {
  if (has_dense_twin(c)) return true;
  static const std::set<std::string> kFamilies = {"llama", "qwen2", "qwen3"};
  if (!kFamilies.contains(c.family())) return false;
  if (!c.is_dense() && !c.has_block_kinds()) return false;
  const Json* window = c.config.find("use_sliding_window");
  if (window != nullptr && window->as_bool()) return false;
  // Mistral: llama.cpp files them as llama, without the window.
  const std::string family = c.family();
  if (family != "llama" && family != "qwen2" && family != "qwen3") return false;
  if (c.family() == "qwen3" && c.config.find("attention_bias") != nullptr) return false;
  const std::string type = rotary_type(c.config);
  const Json* r = rotary(c.config);
  if (type == "yarn") return r->find("mscale") == nullptr && r->find("attention_factor") == nullptr;
  return type != "dynamic";
}

void write_gguf_checkpoint(const GoldenCase& c, const std::string& path) {
  if (has_dense_twin(c)) return write_dense_twin(c, path);
  const std::string arch = c.family();
  const int64_t heads = c.config.find("num_attention_heads")->as_int();
  const int64_t kv_heads = int_or(c.config, "num_key_value_heads", heads);
  GgufWriter w;
  write_metadata(w, c.config, arch);
  const Json* tied = c.config.find("tie_word_embeddings");
  for (const GoldenTensor& t : c.tensors) {
    if (t.name == "lm_head.weight" && tied != nullptr && tied->as_bool()) continue;
    std::string kind = t.kind;
    if (t.shape.size() == 1) kind = "f32";  // converters keep vectors in f32
    std::string bytes = t.is_block_kind() ? golden_blocks(c.seed, t)
                        : kind == t.kind  ? golden_bytes(golden_dense(c.seed, t), kind)
                                          : std::string();
    if (bytes.empty()) {  // a vector stored in 16 bits by the twin: the same rounded values
      std::vector<float> values = golden_dense(c.seed, t);
      for (float& v : values) v = golden_rounded(v, t.kind);
      bytes = golden_bytes(values, "f32");
    }
    const bool query = t.name.find("q_proj") != std::string::npos;
    const bool key = t.name.find("k_proj") != std::string::npos;
    if (arch == "llama" && (query || key)) {
      bytes = interleave_rows(bytes, t.shape[0], query ? heads : kv_heads);
    }
    w.add(gguf_name(t.name), type_of(kind), t.shape, bytes);
  }
  w.write(path);
}

}  // namespace mlxcel::testing

// GGUF twins of the dense families whose tensors have names of their own: names, metadata and
// stored gains as llama.cpp's converter writes them.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "golden/golden_case.h"
#include "testing/gguf_writer.h"

namespace mlxcel::testing {
namespace {

using Words = std::vector<std::pair<std::string, std::string>>;

struct Twin {
  std::string arch;
  Words words{};                // before the common ones
  bool interleaved_qk = false;  // converters of Llama's kin interleave the halves of a head
  bool adds_one = false;        // gains are stored whole
  std::vector<std::string> variants{"base", "bf16"};
};

const Words kOuterNorms = {{"post_attention_layernorm", "post_attention_norm"},
                           {"pre_feedforward_layernorm", "ffn_norm"},
                           {"post_feedforward_layernorm", "post_ffw_norm"}};

const std::map<std::string, Twin>& twins() {
  static const std::map<std::string, Twin> all = {
      {"gemma", {.arch = "gemma", .adds_one = true}},
      {"gemma2",
       {.arch = "gemma2", .words = kOuterNorms, .adds_one = true, .variants = {"head_scale"}}},
      {"gemma3",
       {.arch = "gemma3", .words = kOuterNorms, .adds_one = true, .variants = {"head_scale"}}},
      {"phi3",
       {.arch = "phi3",
        .words = {{"self_attn.qkv_proj", "attn_qkv"}, {"mlp.gate_up_proj", "ffn_up"}},
        .variants = {"base", "bf16", "window", "partial", "tied", "longrope_short", "longrope_long",
                     "longrope_factor"}}},
      {"smollm3", {.arch = "smollm3", .interleaved_qk = true}},
      {"granite", {.arch = "granite", .interleaved_qk = true}},
      {"olmo2", {.arch = "olmo2", .words = kOuterNorms, .variants = {"base", "bf16", "grouped"}}},
      {"exaone4", {.arch = "exaone4", .words = kOuterNorms}},
      {"ernie4_5", {.arch = "ernie4_5"}},
      {"cohere", {.arch = "command-r", .variants = {"base", "bf16", "qk_norm", "logit_scale"}}},
      {"cohere2", {.arch = "cohere2", .variants = {"base", "bf16", "logit_scale"}}},
      {"stablelm", {.arch = "stablelm", .variants = {"base", "parallel", "biases", "partial"}}},
      {"starcoder2",
       {.arch = "starcoder2",
        .words = {{"mlp.c_fc", "ffn_up"}, {"mlp.c_proj", "ffn_down"}},
        .variants = {"base", "bf16", "window", "no_bias", "untied"}}},
      {"phi",
       {.arch = "phi2",
        .words = {{"model.final_layernorm", "output_norm"},
                  {"self_attn.dense", "attn_output"},
                  {"mlp.fc1", "ffn_up"},
                  {"mlp.fc2", "ffn_down"}},
        .variants = {"base", "bf16", "partial"}}},
      {"nemotron",
       {.arch = "nemotron", .adds_one = true, .variants = {"base", "biases", "whole_heads"}}},
      {"gpt2",
       {.arch = "gpt2",
        .words = {{"transformer.h", "blk"},
                  {"transformer.wte", "token_embd"},
                  {"transformer.wpe", "position_embd"},
                  {"transformer.ln_f", "output_norm"},
                  {"attn.c_attn", "attn_qkv"},
                  {"attn.c_proj", "attn_output"},
                  {"mlp.c_fc", "ffn_up"},
                  {"mlp.c_proj", "ffn_down"},
                  {"ln_1", "attn_norm"},
                  {"ln_2", "ffn_norm"}},
        .variants = {"base", "bf16", "n_inner", "short"}}},
  };
  return all;
}

const Words kCommon = {
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

std::string gguf_name(const Twin& twin, const std::string& name) {
  // A part of the name that a family's word has named is not named again by a common one.
  std::string rest = name;
  for (const auto& [from, to] : kCommon) {
    if (from.starts_with("model.layers") && rest.starts_with(from)) {
      rest = to + rest.substr(from.size());
    }
  }
  for (const Words* words : {&twin.words, &kCommon}) {
    for (const auto& [from, to] : *words) {
      const size_t at = rest.find(from);
      if (at == std::string::npos) continue;
      rest.replace(at, from.size(), to);
      if (!from.starts_with("transformer.h")) return rest;
    }
  }
  return rest;
}

/// The number at the first of `keys` that the config has; `fallback` without any.
double number(const Json& c, std::initializer_list<std::string_view> keys, double fallback) {
  for (const std::string_view key : keys) {
    const Json* v = c.find(key);
    if (v != nullptr && v->is_number()) return v->as_double();
  }
  return fallback;
}

uint32_t size(const Json& c, std::initializer_list<std::string_view> keys, double fallback = 0) {
  return static_cast<uint32_t>(number(c, keys, fallback));
}

const Json* rotary(const Json& c) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* r = c.find(key);
    if (r != nullptr && r->is_object()) return r;
  }
  return nullptr;
}

void write_longrope(GgufWriter& w, const Json& c, const std::string& arch, const Json& r) {
  w.str(arch + ".rope.scaling.type", "longrope");
  w.u32(arch + ".rope.scaling.original_context_length",
        size(c, {"original_max_position_embeddings"}));
  const double original = number(c, {"original_max_position_embeddings"}, 1);
  const double stretch = number(c, {"max_position_embeddings"}, 1) / original;
  const double attention = stretch > 1 ? std::sqrt(1 + std::log(stretch) / std::log(original)) : 1;
  w.f32(arch + ".rope.scaling.attn_factor",
        static_cast<float>(number(r, {"attention_factor"}, attention)));
  for (const std::string which : {"short", "long"}) {
    std::vector<float> factors;
    for (const Json& f : r.find(which + "_factor")->as_array()) {
      factors.push_back(static_cast<float>(f.as_double()));
    }
    const auto count = static_cast<int64_t>(factors.size());
    w.add("rope_factors_" + which + ".weight", {count}, factors);
  }
}

/// Optional numbers that carry over under another key.
void write_numbers(GgufWriter& w, const Json& c, const std::string& arch) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kReal = {{
      {"attn_logit_softcapping", "attn_logit_softcapping"},
      {"final_logit_softcapping", "final_logit_softcapping"},
      {"attention_multiplier", "attention.scale"},
      {"embedding_multiplier", "embedding_scale"},
      {"residual_multiplier", "residual_scale"},
      {"logits_scaling", "logit_scale"},
      {"logit_scale", "logit_scale"},
  }};
  for (const auto& [hf, gguf] : kReal) {
    const double value = number(c, {hf}, 0);
    if (value != 0) w.f32(arch + "." + std::string(gguf), static_cast<float>(value));
  }
  if (arch == "gemma2") {  // the converter writes the defaults of the config class
    if (c.find("attn_logit_softcapping") == nullptr) w.f32("gemma2.attn_logit_softcapping", 50.0F);
    if (c.find("final_logit_softcapping") == nullptr)
      w.f32("gemma2.final_logit_softcapping", 30.0F);
  }
  if ((arch == "cohere2" || arch == "command-r") && c.find("logit_scale") == nullptr) {
    w.f32(arch + ".logit_scale", 0.0625F);
  }
  const uint32_t window = size(c, {"sliding_window"});
  if (window > 0) w.u32(arch + ".attention.sliding_window", window);
}

void write_metadata(GgufWriter& w, const GoldenCase& golden, const std::string& arch) {
  const Json& c = golden.config;
  const uint32_t heads = size(c, {"num_attention_heads", "n_head"});
  const uint32_t width = size(c, {"hidden_size", "n_embd"});
  const uint32_t head_dim = size(c, {"head_dim"}, width / heads);
  w.str("general.architecture", arch);
  w.str("tokenizer.ggml.model", "no_vocab");
  w.u32(arch + ".vocab_size", size(c, {"vocab_size"}));
  w.u32(arch + ".context_length", size(c, {"max_position_embeddings", "n_positions"}));
  w.u32(arch + ".embedding_length", width);
  w.u32(arch + ".block_count", size(c, {"num_hidden_layers", "n_layer"}));
  w.u32(arch + ".feed_forward_length", size(c, {"intermediate_size", "n_inner"}, 4.0 * width));
  w.u32(arch + ".attention.head_count", heads);
  w.u32(arch + ".attention.head_count_kv", size(c, {"num_key_value_heads"}, heads));
  if (c.find("head_dim") != nullptr) {
    w.u32(arch + ".attention.key_length", head_dim);
    w.u32(arch + ".attention.value_length", head_dim);
  }
  const bool rms = c.find("rms_norm_eps") != nullptr;
  w.f32(arch + (rms ? ".attention.layer_norm_rms_epsilon" : ".attention.layer_norm_epsilon"),
        static_cast<float>(number(
            c, {"rms_norm_eps", "layer_norm_eps", "norm_epsilon", "norm_eps", "layer_norm_epsilon"},
            1e-5)));
  const Json* r = rotary(c);
  w.f32(arch + ".rope.freq_base", static_cast<float>(number(c, {"rope_theta"}, 10000.0)));
  const double partial_default = arch == "stablelm"                     ? 0.25
                                 : arch == "phi2" || arch == "nemotron" ? 0.5
                                                                        : 1.0;
  const double partial = number(c, {"partial_rotary_factor"}, partial_default);
  w.u32(arch + ".rope.dimension_count", static_cast<uint32_t>(head_dim * partial));
  if (r != nullptr && r->find("short_factor") != nullptr) write_longrope(w, c, arch, *r);
  write_numbers(w, c, arch);
}

std::vector<float> transposed(const std::vector<float>& values, int64_t rows, int64_t cols) {
  std::vector<float> out(values.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      out[static_cast<size_t>(c * rows + r)] = values[static_cast<size_t>(r * cols + c)];
    }
  }
  return out;
}

/// Row (head, j, half) of the file is row (head, half, j) of the checkpoint.
std::vector<float> interleaved(const std::vector<float>& values, int64_t rows, int64_t heads) {
  const int64_t cols = static_cast<int64_t>(values.size()) / rows, head_dim = rows / heads;
  std::vector<float> out;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t head = r / head_dim, j = r % head_dim / 2, half = r % 2;
    const auto from = values.begin() + (head * head_dim + half * (head_dim / 2) + j) * cols;
    out.insert(out.end(), from, from + cols);
  }
  return out;
}

}  // namespace

bool has_dense_twin(const GoldenCase& c) {
  const auto twin = twins().find(c.family());
  if (twin == twins().end()) return false;
  const std::string variant = c.name.substr(c.name.find('/') + 1);
  return std::ranges::count(twin->second.variants, variant) > 0;
}

void write_dense_twin(const GoldenCase& c, const std::string& path) {
  const Twin& twin = twins().at(c.family());
  const uint32_t heads = size(c.config, {"num_attention_heads", "n_head"});
  GgufWriter w;
  write_metadata(w, c, twin.arch);
  for (const GoldenTensor& t : c.tensors) {
    std::vector<float> values = golden_dense(c.seed, t);
    for (float& v : values) v = golden_rounded(v, t.kind);
    std::vector<int64_t> shape = t.shape;
    const bool norm = t.name.ends_with("norm.weight");
    if (norm && twin.adds_one) {
      for (float& v : values) v += 1.0F;
    }
    const bool conv1d = twin.arch == "gpt2" && t.name.find(".h.") != std::string::npos;
    if (conv1d && shape.size() == 2) {
      values = transposed(values, shape[0], shape[1]);
      std::swap(shape[0], shape[1]);
    }
    const bool query = t.name.find("q_proj") != std::string::npos;
    const bool key = t.name.find("k_proj") != std::string::npos;
    if (twin.interleaved_qk && (query || key)) {
      values = interleaved(values, shape[0],
                           query ? heads : size(c.config, {"num_key_value_heads"}, heads));
    }
    const std::string kind = shape.size() == 1 || norm ? "f32" : t.kind;
    const auto type = kind == "f32"   ? io::GgmlType::F32
                      : kind == "f16" ? io::GgmlType::F16
                                      : io::GgmlType::BF16;
    w.add(gguf_name(twin, t.name), type, shape, golden_bytes(values, kind));
  }
  w.write(path);
}

}  // namespace mlxcel::testing

#include "io/gguf_model.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "errors.h"
#include "io/checkpoint.h"
#include "testing/gguf_writer.h"
#include "testing/paths.h"

namespace mlxcel::io {
namespace {

using mlxcel::testing::GgufWriter;
using mlxcel::testing::TempDir;
using ::testing::ElementsAre;

GgufWriter metadata(const std::string& arch) {
  GgufWriter w;
  const auto key = [&](const char* suffix) { return arch + "." + suffix; };
  w.str("general.architecture", arch).u32(key("block_count"), 2).u32(key("context_length"), 128);
  w.u32(key("embedding_length"), 8).u32(key("feed_forward_length"), 12);
  w.u32(key("attention.head_count"), 2).u32(key("attention.head_count_kv"), 1);
  w.f32(key("attention.layer_norm_rms_epsilon"), 1e-6F).f32(key("rope.freq_base"), 1e6F);
  return w;
}

std::vector<float> numbers(int64_t n) {
  std::vector<float> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 0.0F);
  return out;
}

class GgufModel : public ::testing::Test {
 protected:
  Checkpoint open(const GgufWriter& w) const {
    w.write(dir_.file("m.gguf"));
    return open_checkpoint(dir_.file("m.gguf"));
  }
  TempDir dir_;
};

TEST_F(GgufModel, ConfigHasTheKeysOfConfigJson) {
  for (const char* arch : {"llama", "qwen2", "qwen3"}) {
    GgufWriter w = metadata(arch);
    w.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2);
    w.u32("tokenizer.ggml.eot_token_id", 5)
        .strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>"});
    w.flag("tokenizer.ggml.add_bos_token", true).str("tokenizer.chat_template", "{{ x }}");
    w.add("token_embd.weight", {10, 8}, numbers(80));
    const Checkpoint c = open(w);
    EXPECT_EQ(c.model_type(), arch);
    EXPECT_EQ(c.config.i64("num_hidden_layers"), 2);
    EXPECT_EQ(c.config.i64("max_position_embeddings"), 128);
    EXPECT_EQ(c.config.i64("hidden_size"), 8);
    EXPECT_EQ(c.config.i64("intermediate_size"), 12);
    EXPECT_EQ(c.config.i64("num_attention_heads"), 2);
    EXPECT_EQ(c.config.i64("num_key_value_heads"), 1);
    EXPECT_EQ(c.config.i64("head_dim"), 4);
    EXPECT_EQ(c.config.i64("vocab_size"), 10);
    EXPECT_EQ(c.config.f32_or("rms_norm_eps", 0), 1e-6F);
    EXPECT_EQ(c.config.f64("rope_theta"), 1e6);
    EXPECT_TRUE(c.config.flag_or("tie_word_embeddings", false));
    EXPECT_FALSE(c.config.has("rope_scaling"));
    EXPECT_EQ(c.config.f64_or("partial_rotary_factor", 1.0), 1.0);
    EXPECT_EQ(c.config.i64("bos_token_id"), 1);
    EXPECT_THAT(c.eos_token_ids(), ElementsAre(2, 5));
    EXPECT_EQ(c.tokenizer_config.str("eos_token"), "</s>");
    EXPECT_EQ(c.tokenizer_config.str("chat_template"), "{{ x }}");
    EXPECT_TRUE(c.tokenizer_config.flag_or("add_bos_token", false));
    w.add("output.weight", {10, 8}, numbers(80));
    EXPECT_FALSE(open(w).config.flag_or("tie_word_embeddings", true));
  }
}

TEST_F(GgufModel, RopeScaling) {
  const auto scaling = [&](auto&& change) {
    GgufWriter w = metadata("qwen2");
    change(w);
    return open(w).config;
  };
  const Config linear = scaling([](GgufWriter& w) {
    w.str("qwen2.rope.scaling.type", "linear").f32("qwen2.rope.scaling.factor", 4);
  });
  EXPECT_EQ(linear.str("rope_scaling.rope_type"), "linear");
  EXPECT_EQ(linear.f64("rope_scaling.factor"), 4.0);
  EXPECT_EQ(scaling([](GgufWriter& w) {
              w.f32("qwen2.rope.scale_linear", 2);
            }).str("rope_scaling.rope_type"),
            "linear");
  const Config yarn = scaling([](GgufWriter& w) {
    w.str("qwen2.rope.scaling.type", "yarn").f32("qwen2.rope.scaling.factor", 4);
    w.u32("qwen2.rope.scaling.original_context_length", 32768);
    w.f32("qwen2.rope.scaling.attn_factor", 0.5F);
    w.f32("qwen2.rope.scaling.yarn_beta_fast", 16);
  });
  EXPECT_EQ(yarn.str("rope_scaling.rope_type"), "yarn");
  EXPECT_EQ(yarn.i64("rope_scaling.original_max_position_embeddings"), 32768);
  EXPECT_EQ(yarn.f64("rope_scaling.beta_fast"), 16.0);
  EXPECT_DOUBLE_EQ(yarn.f64("rope_scaling.attention_factor"), 0.5 * (0.1 * std::log(4.0) + 1));
  EXPECT_FALSE(scaling([](GgufWriter& w) {
                 w.str("qwen2.rope.scaling.type", "none").f32("qwen2.rope.scaling.factor", 4);
               }).has("rope_scaling"));
  expect_error(Code::Corrupt, "\"longrope\"", [&] {
    scaling([](GgufWriter& w) {
      w.str("qwen2.rope.scaling.type", "longrope").f32("qwen2.rope.scaling.factor", 4);
    });
  });
  expect_error(Code::InvalidArgument, "must be positive", [&] {
    scaling([](GgufWriter& w) {
      w.str("qwen2.rope.scaling.type", "linear").f32("qwen2.rope.scaling.factor", -4);
    });
  });
  expect_error(Code::InvalidArgument, "\"qwen2.rope.scaling.factor\" must be finite",
               [&] { scaling([](GgufWriter& w) { w.f32("qwen2.rope.scaling.factor", NAN); }); });
}

TEST_F(GgufModel, RopeFactorsOfLlama3) {
  const float factors[] = {1, 8};
  const Checkpoint c = open(metadata("llama").add("rope_freqs.weight", {2}, factors));
  EXPECT_EQ(c.config.json().find("rope_freq_factors")->as_array(),
            (Json::Array{Json(1.0), Json(8.0)}));
  EXPECT_THAT(c.weights({}).take("rope_freqs.weight", {2}).host<float>(), ElementsAre(1, 8));
  const float bad[] = {1, 0};
  expect_error(Code::Corrupt, "rope_freqs.weight",
               [&] { open(metadata("llama").add("rope_freqs.weight", {2}, bad)); });
  expect_error(Code::Corrupt, "rope_freqs.weight", [&] {
    open(metadata("llama").add("rope_freqs.weight", GgmlType::F16, {2}, "abcd"));
  });
}

TEST_F(GgufModel, HeadSizes) {
  const Checkpoint wide = open(metadata("qwen3").u32("qwen3.attention.key_length", 16));
  EXPECT_EQ(wide.config.i64("head_dim"), 16);
  EXPECT_EQ(open(metadata("llama").u32("llama.rope.dimension_count", 2))
                .config.f64("partial_rotary_factor"),
            0.5);
  expect_error(Code::Unsupported, "attention.value_length",
               [&] { open(metadata("llama").u32("llama.attention.value_length", 8)); });
  GgufWriter bare;
  bare.str("general.architecture", "llama").u32("llama.embedding_length", 8);
  const Config derived = open(bare.u32("llama.attention.head_count", 2)).config;
  EXPECT_EQ(derived.i64("head_dim"), 4);
  EXPECT_EQ(derived.i64("num_key_value_heads"), 2);
  GgufWriter lists;
  const int32_t same[] = {3, 3}, different[] = {3, 4};
  lists.str("general.architecture", "llama").i32s("llama.attention.head_count_kv", same);
  EXPECT_EQ(open(lists).config.i64("num_key_value_heads"), 3);
  lists.i32s("llama.feed_forward_length", different);
  expect_error(Code::Unsupported, "differs from layer to layer", [&] { open(lists); });
}

TEST_F(GgufModel, TensorNamesAndRowOrder) {
  for (const bool interleaved : {true, false}) {
    GgufWriter w = metadata(interleaved ? "llama" : "qwen2");
    const std::pair<const char*, const char*> names[] = {
        {"token_embd.weight", "model.embed_tokens.weight"},
        {"output_norm.weight", "model.norm.weight"},
        {"output.weight", "lm_head.weight"},
        {"rope_freqs.weight", "rope_freqs.weight"},
        {"blk.1.attn_norm.weight", "model.layers.1.input_layernorm.weight"},
        {"blk.1.attn_q.weight", "model.layers.1.self_attn.q_proj.weight"},
        {"blk.1.attn_q.bias", "model.layers.1.self_attn.q_proj.bias"},
        {"blk.1.attn_k.weight", "model.layers.1.self_attn.k_proj.weight"},
        {"blk.1.attn_k.bias", "model.layers.1.self_attn.k_proj.bias"},
        {"blk.1.attn_v.weight", "model.layers.1.self_attn.v_proj.weight"},
        {"blk.1.attn_v.bias", "model.layers.1.self_attn.v_proj.bias"},
        {"blk.1.attn_output.weight", "model.layers.1.self_attn.o_proj.weight"},
        {"blk.1.attn_q_norm.weight", "model.layers.1.self_attn.q_norm.weight"},
        {"blk.1.attn_k_norm.weight", "model.layers.1.self_attn.k_norm.weight"},
        {"blk.1.ffn_norm.weight", "model.layers.1.post_attention_layernorm.weight"},
        {"blk.1.ffn_gate.weight", "model.layers.1.mlp.gate_proj.weight"},
        {"blk.1.ffn_up.weight", "model.layers.1.mlp.up_proj.weight"},
        {"blk.1.ffn_down.weight", "model.layers.1.mlp.down_proj.weight"},
        {"blk.1.strange.weight", "blk.1.strange.weight"},
        {"blk.1", "blk.1"},
        {"lonely", "lonely"}};
    std::vector<std::string> expected;
    for (const auto& [gguf, hf] : names) {
      const bool bias = std::string(gguf).ends_with("bias");
      const bool rope = std::string(gguf).starts_with("rope");
      if (rope) {
        const float factors[] = {1, 1};
        w.add(gguf, {2}, factors);
      } else if (bias) {
        w.add(gguf, {8}, numbers(8));
      } else {
        w.add(gguf, {8, 3}, numbers(24));
      }
      expected.emplace_back(hf);
    }
    const Weights weights = open(w).weights({});
    EXPECT_THAT(weights.unused(), ::testing::UnorderedElementsAreArray(expected));
    const Weights attn = weights.at("model.layers", 1).at("self_attn");
    // Two heads of q, one of k: file rows 2j + s of a head are rows s * half + j.
    const std::vector<float> q =
        interleaved ? std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7} : numbers(8);
    const std::vector<float> k =
        interleaved ? std::vector<float>{0, 2, 4, 6, 1, 3, 5, 7} : numbers(8);
    EXPECT_THAT(attn.at("q_proj").take_f32("bias", {8}).host<float>(),
                ::testing::ElementsAreArray(q));
    EXPECT_THAT(attn.at("k_proj").take_f32("bias", {8}).host<float>(),
                ::testing::ElementsAreArray(k));
    EXPECT_THAT(attn.at("v_proj").take_f32("bias", {8}).host<float>(),
                ::testing::ElementsAreArray(numbers(8)));
    const auto matrix = attn.at("q_proj").take_matrix(8, 3);
    EXPECT_EQ(matrix->dense_rows(0) == nullptr, interleaved);
    const Tensor copy = attn.at("q_proj").take("weight", {8, 3});
    for (int64_t r = 0; r < 8; ++r) {
      float row[3];
      matrix->read_f32(r, 1, row);
      const float first = 3 * q[static_cast<size_t>(r)];
      EXPECT_THAT(row, ElementsAre(first, first + 1, first + 2));
      EXPECT_EQ(copy.host<float>()[static_cast<size_t>(r * 3)], first);
    }
  }
}

TEST_F(GgufModel, HostileHeads) {
  for (const uint32_t heads : {0U, 3U, 1U << 21, UINT32_MAX}) {
    GgufWriter w;
    w.str("general.architecture", "llama").u32("llama.attention.head_count", heads);
    w.u32("llama.embedding_length", 8).add("blk.0.attn_q.weight", {8, 3}, numbers(24));
    w.add("blk.0.attn_q.bias", {8}, numbers(8));
    EXPECT_THROW(
        {
          const Weights q = open(w).weights({}).at("model.layers.0.self_attn.q_proj");
          q.take("bias", {8});
        },
        Error)
        << heads;
    EXPECT_THROW(open(w).weights({}).at("model.layers.0.self_attn.q_proj").take_matrix(8, 3),
                 Error);
  }
  GgufWriter w;
  w.str("general.architecture", "llama").str("llama.attention.head_count", "two");
  expect_error(Code::InvalidArgument, "\"llama.attention.head_count\"", [&] { open(w); });
  expect_error(Code::InvalidArgument, "\"general.architecture\" is missing",
               [&] { open(GgufWriter()); });
}

TEST_F(GgufModel, QuantizedTensors) {
  GgufWriter w = metadata("qwen2");
  w.add("blk.0.ffn_up.weight", GgmlType::Q8_0, {2, 32}, std::string(68, 1));
  w.add("blk.0.attn_norm.weight", GgmlType::Q8_0, {32}, std::string(34, 1));
  const Weights layer = open(w).weights({}).at("model.layers.0");
  const auto m = layer.at("mlp.up_proj").take_matrix(2, 32);
  EXPECT_EQ(m->format().bits, 8);
  EXPECT_TRUE(m->format().symmetric);
  expect_error(Code::Unsupported, "Q8_0 blocks",
               [&] { layer.at("input_layernorm").take("weight", {32}); });
  const float half = f16_to_f32(0x0101);
  EXPECT_EQ(layer.at("input_layernorm").take_f32("weight", {32}).host<float>()[31], half);
  EXPECT_EQ(layer.at("mlp.up_proj").take_f32("weight", {2, 32}).host<float>()[63], half);
}

TEST_F(GgufModel, ArchitecturesWithoutARow) {
  GgufWriter w = metadata("bloom");
  w.add("token_embd.weight", {10, 8}, numbers(80));
  const Checkpoint c = open(w);
  EXPECT_EQ(c.model_type(), "bloom");
  expect_error(Code::Unsupported,
               "GGUF architecture \"bloom\" is not supported; supported are llama",
               [&] { c.weights({}); });
  const Checkpoint experts = open(metadata("llama").u32("llama.expert_count", 8));
  EXPECT_EQ(experts.model_type(), "mixtral");
}

}  // namespace
}  // namespace mlxcel::io

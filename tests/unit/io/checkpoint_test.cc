#include "io/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "testing/paths.h"

namespace mlxcel::io {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Reads everything a llama of this config needs, as the model does.
std::vector<float> read_llama(const Checkpoint& c, const std::string& matrix) {
  const Weights w = c.weights({});
  const Config& k = c.config;
  const int64_t d = k.size("hidden_size"), f = k.size("intermediate_size"),
                v = k.size("vocab_size"), heads = k.size("num_attention_heads"),
                kv = k.size("num_key_value_heads"), dh = k.size_or("head_dim", d / heads);
  std::vector<float> out;
  const auto take = [&](const Weights& at, int64_t rows, int64_t cols) {
    const auto m = at.take_matrix(rows, cols);
    std::vector<float> all(static_cast<size_t>(rows * cols));
    m->read_f32(0, rows, all.data());
    if (at.path() == matrix) out = all;
    m->release_rows(0, rows);
  };
  const Weights model = w.at("model");
  take(model.at("embed_tokens"), v, d);
  EXPECT_EQ(model.at("norm").take_f32("weight", {d}).numel(), d);
  for (int64_t i = 0; i < k.size("num_hidden_layers"); ++i) {
    const Weights layer = model.at("layers", i);
    layer.at("input_layernorm").take_f32("weight", {d});
    layer.at("post_attention_layernorm").take_f32("weight", {d});
    const Weights attn = layer.at("self_attn"), mlp = layer.at("mlp");
    take(attn.at("q_proj"), heads * dh, d);
    take(attn.at("k_proj"), kv * dh, d);
    take(attn.at("v_proj"), kv * dh, d);
    take(attn.at("o_proj"), d, heads * dh);
    take(mlp.at("gate_proj"), f, d);
    take(mlp.at("up_proj"), f, d);
    take(mlp.at("down_proj"), d, f);
  }
  EXPECT_THAT(w.missing(), IsEmpty());
  EXPECT_THAT(w.unused(), IsEmpty());
  return out;
}

TEST(Checkpoint, GgufEqualsSafetensors) {
  const std::string hf = mlxcel::testing::shared_path("stories260K/hf");
  if (hf.empty()) GTEST_SKIP() << "shared test data is absent";
  const Checkpoint a = open_checkpoint(hf);
  const Checkpoint b =
      open_checkpoint(mlxcel::testing::shared_path("stories260K/stories260K.gguf"));
  EXPECT_EQ(a.model_type(), "llama");
  EXPECT_EQ(b.model_type(), "llama");
  for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size",
                          "num_attention_heads", "num_key_value_heads", "head_dim",
                          "max_position_embeddings", "bos_token_id", "eos_token_id"}) {
    EXPECT_EQ(a.config.i64(key), b.config.i64(key)) << key;
  }
  EXPECT_EQ(a.config.f32_or("rms_norm_eps", 0), b.config.f32_or("rms_norm_eps", 1));
  EXPECT_EQ(a.config.f64("rope_theta"), b.config.f64("rope_theta"));
  EXPECT_TRUE(b.config.flag_or("tie_word_embeddings", false));
  EXPECT_THAT(a.eos_token_ids(), ElementsAre(2));
  EXPECT_THAT(b.eos_token_ids(), ElementsAre(2));
  for (const char* name :
       {"model.embed_tokens", "model.layers.0.self_attn.q_proj", "model.layers.3.self_attn.k_proj",
        "model.layers.4.self_attn.v_proj", "model.layers.2.mlp.down_proj"}) {
    const auto values = read_llama(a, name);
    ASSERT_FALSE(values.empty());
    EXPECT_EQ(values, read_llama(b, name)) << name;
  }
}

TEST(Checkpoint, MlxFourBitIsCloseToFull) {
  const std::string path = mlxcel::testing::shared_path("stories260K/stories260K-4bit");
  if (path.empty()) GTEST_SKIP() << "shared test data is absent";
  const Checkpoint a = open_checkpoint(path);
  const Checkpoint b = open_checkpoint(mlxcel::testing::shared_path("stories260K/hf"));
  for (const char* name : {"model.embed_tokens", "model.layers.1.mlp.up_proj"}) {
    const auto low = read_llama(a, name), full = read_llama(b, name);
    ASSERT_EQ(low.size(), full.size());
    double error = 0, power = 0;
    for (size_t i = 0; i < low.size(); ++i) {
      error += std::pow(low[i] - full[i], 2);
      power += std::pow(full[i], 2);
    }
    EXPECT_LT(error, 0.02 * power) << name;
  }
}

}  // namespace
}  // namespace mlxcel::io

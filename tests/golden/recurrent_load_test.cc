// Loading recurrent and hybrid families: what they keep between steps, and settings that they
// refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/register.h"
#include "golden/golden_case.h"
#include "io/checkpoint.h"
#include "models/family.h"
#include "testing/paths.h"

namespace mlxcel::testing {
namespace {

using ::testing::HasSubstr;

models::LoadedModel load(const GoldenCase& c) {
  backend::register_all();
  const TempDir folder;
  write_safetensors_checkpoint(c, folder.path());
  return models::load(io::open_checkpoint(folder.path()));
}

struct Refusal {
  const char* golden;
  const char* key;
  const char* value;    // JSON
  const char* message;  // part of the error besides the key
};

class Refused : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refused, NamesKeyAndValue) {
  const Refusal& r = GetParam();
  GoldenCase c = load_golden(r.golden);
  c.config.set(r.key, Json::parse(r.value).value());
  c.config_text = c.config.dump();
  try {
    (void)load(c);
    FAIL() << r.key << " was accepted";
  } catch (const Error& e) {
    EXPECT_THAT(e.message(), HasSubstr(r.key));
    EXPECT_THAT(e.message(), HasSubstr(r.message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, Refused,
    ::testing::Values(
        Refusal{"mamba/base", "hidden_act", R"("relu")", "relu"},
        Refusal{"mamba/base", "time_step_rank", R"("most")", "most"},
        Refusal{"mamba/base", "conv_kernel", "1", "1"},
        Refusal{"mamba2/base", "time_step_limit", "[0.5, 0.1]", "0.5"},
        Refusal{"mamba2/base", "time_step_limit", "[0.5]", "1"},
        Refusal{"lfm2/base", "layer_types", R"(["conv", "full_attention", "moe"])", "moe"},
        Refusal{"lfm2/base", "layer_types", R"(["conv"])", "1"},
        Refusal{"lfm2/full_attn_idxs", "full_attn_idxs", "[3]", "3"},
        Refusal{"granitemoehybrid/dense", "layer_types", R"(["mamba", "rnn", "mamba"])", "rnn"},
        Refusal{"granitemoehybrid/dense", "position_embedding_type", R"("alibi")", "alibi"},
        Refusal{"granitemoehybrid/dense", "mamba_n_heads", "7", "7"},
        Refusal{"granitemoehybrid/dense", "mamba_d_head", R"("wide")", "wide"},
        Refusal{"falcon_h1/base", "ssm_multipliers", "[1.0, 2.0]", "2"},
        Refusal{"qwen3_5/base", "output_gate_type", R"("sigmoid")", "sigmoid"},
        Refusal{"qwen3_5/base", "language_model_only", R"("yes")", "yes"},
        Refusal{"qwen3_5/base", "attn_output_gate", "false", "false"},
        Refusal{"qwen3_5/base", "linear_num_key_heads", "3", "3"},
        Refusal{"recurrent_gemma/base", "block_types", R"(["attention", "conv"])", "conv"},
        Refusal{"recurrent_gemma/base", "lru_width", "63", "63"},
        Refusal{"recurrent_gemma/base", "hidden_activation", R"("silu")", "silu"},
        Refusal{"nemotron_h/dense", "hybrid_override_pattern", R"("M-?M-")", "M-?M-"},
        Refusal{"nemotron_h/dense", "tie_word_embeddings", "true", "true"},
        Refusal{"nemotron_h/experts", "moe_latent_size", "16", "16"},
        Refusal{"nemotron_h/experts", "mlp_hidden_act", R"("silu")", "silu"},
        Refusal{"kimi_linear/base", "q_lora_rank", "16", "16"},
        Refusal{"kimi_linear/base", "moe_router_activation_func", R"("softmax")", "softmax"},
        Refusal{"kimi_linear/base", "num_expert_group", "3", "3"},
        Refusal{"kimi_linear/base", "tie_word_embeddings", "true", "true"},
        Refusal{"kimi_linear/base", "mla_use_nope", "false", "false"},
        Refusal{"qwen3_5_moe/base", "output_gate_type", R"("sigmoid")", "sigmoid"},
        Refusal{"jamba/dense", "attn_layer_offset", "3", "3"},
        Refusal{"rwkv7/base", "head_dim", "48", "48"},
        Refusal{"rwkv7/base", "hidden_act", R"("gelu")", "gelu"},
        Refusal{"plamo2/base", "mamba_step", "1", "1"}),
    [](const auto& refusal) {
      std::string id = std::string(refusal.param.golden) + "_" + refusal.param.key;
      std::ranges::replace(id, '/', '_');
      return id + "_" + std::to_string(refusal.index);
    });

TEST(RecurrentSpec, NamesStatesAndBlocks) {
  const auto falcon = load(load_golden("falcon_h1/base")).lm->spec();
  for (const nn::CacheSpec& c : falcon.caches) {
    EXPECT_EQ(c.kind, nn::CacheSpec::Kind::Full);  // attention and state space side by side
    ASSERT_EQ(c.state.size(), 2U);
    EXPECT_EQ(c.state[0], (Shape{3, 128 + 2 * 2 * 12}));
    EXPECT_EQ(c.state[1], (Shape{8, 12, 16}));
  }
  const auto nemotron = load(load_golden("nemotron_h/dense")).lm->spec();
  EXPECT_EQ(nemotron.caches[0].kind, nn::CacheSpec::Kind::Recurrent);
  EXPECT_EQ(nemotron.caches[1].kind, nn::CacheSpec::Kind::None);
  EXPECT_EQ(nemotron.caches[2].kind, nn::CacheSpec::Kind::Full);
  EXPECT_TRUE(nemotron.caches[2].state.empty());
}

TEST(RecurrentSpec, RegistryTellsHowPrefixesAreShared) {
  EXPECT_EQ(models::find_family("llama").prefix_sharing, models::PrefixSharing::Blocks);
  for (const char* type :
       {"mamba", "mamba2", "lfm2", "falcon_h1", "qwen3_5", "recurrent_gemma", "nemotron_h", "jamba",
        "rwkv7", "plamo2", "granitemoehybrid", "qwen3_next", "qwen3_5_moe", "kimi_linear"}) {
    EXPECT_EQ(models::find_family(type).prefix_sharing, models::PrefixSharing::Snapshots) << type;
  }
}

}  // namespace
}  // namespace mlxcel::testing

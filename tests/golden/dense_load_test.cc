// Configurations of dense families that no golden shows: other spellings of the same model, what is
// refused and by which message, and what the engine is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/register.h"
#include "golden/golden_case.h"
#include "io/checkpoint.h"
#include "models/family.h"
#include "testing/direct_caches.h"
#include "testing/paths.h"

namespace mlxcel::testing {
namespace {

using ::testing::HasSubstr;

class DenseLoad : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { backend::register_all(); }

  static void set(GoldenCase& c, std::string_view key, const char* json) {
    c.config.set(key, Json::parse(json).value());
    c.config_text = c.config.dump();
  }
  static void erase(GoldenCase& c, std::string_view key) {
    std::erase_if(c.config.as_object(), [&](const Json::Member& m) { return m.first == key; });
    c.config_text = c.config.dump();
  }
  static models::LoadedModel load(const GoldenCase& c) {
    const TempDir folder;
    write_safetensors_checkpoint(c, folder.path());
    return models::load(io::open_checkpoint(folder.path()));
  }
  static std::string error(const GoldenCase& c) {
    try {
      (void)load(c);
    } catch (const Error& e) {
      return e.message();
    }
    return "no error";
  }
  /// Logits after the prompt of a case.
  static std::vector<float> logits(const GoldenCase& c) {
    const auto model = load(c);
    DirectCaches caches(model.lm->spec(), 1, static_cast<int64_t>(c.prompt.size()));
    const DirectCaches::Piece prompt{.sequence = 0, .tokens = c.prompt};
    const Tensor out = caches.forward(*model.lm, {&prompt, 1});
    return {out.host<float>().begin(), out.host<float>().end()};
  }
};

struct Refusal {
  const char* variant;
  const char* key;
  const char* value;
  const char* message;
};

TEST_F(DenseLoad, RefusedValuesAreNamed) {
  const Refusal refusals[] = {
      {"gemma/base", "hidden_act", R"("mish")", "hidden_act = \"mish\""},
      {"gemma/base", "use_bidirectional_attention", "true", "use_bidirectional_attention"},
      {"gemma2/base", "layer_types", R"(["chunked_attention", "x", "x", "x"])",
       "layer_types[0] = \"chunked_attention\""},
      {"gemma3/base", "rope_scaling", R"({"rope_type": "spiral", "factor": 8.0})",
       "rope_scaling.rope_type = \"spiral\""},
      {"gemma3/base", "query_pre_attn_scalar", "0", "query_pre_attn_scalar = 0"},
      {"gemma4/base", "enable_moe_block", "true", "enable_moe_block"},
      {"gemma4/base", "num_kv_shared_layers", "5", "num_kv_shared_layers"},
      {"gemma4/base", "per_layer_config", R"({"0": {"head_dim": 8}})", "per_layer_config"},
      {"phi3/base", "rope_scaling", R"({"rope_type": "longrope", "short_factor": [1.0]})",
       "rope_scaling.short_factor has 1 entries, expected 8"},
      {"phi3/base", "rope_scaling", R"({"rope_type": "longrope"})",
       "rope_scaling.short_factor is missing"},
      {"olmo/clip_qkv", "clip_qkv", "-1.0", "clip_qkv = -1"},
      {"smollm3/base", "no_rope_layers", "[1, 0]", "no_rope_layers"},
      {"granite/base", "logits_scaling", "0.0", "logits_scaling = 0"},
      {"exaone4/base", "sliding_window_pattern", R"("LLX")", "sliding_window_pattern = \"LLX\""},
      {"hunyuan_v1_dense/alpha", "rope_scaling", R"({"type": "dynamic", "alpha": -1.0})",
       "rope_scaling.alpha = -1"},
      {"gpt2/base", "scale_attn_by_inverse_layer_idx", "true", "scale_attn_by_inverse_layer_idx"},
      {"gpt2/base", "n_embd", "0", "n_embd"},
      {"phi/base", "num_local_experts", "4", "num_local_experts = 4"},
      {"starcoder2/base", "norm_epsilon", "-1.0", "norm_epsilon = -1"},
  };
  for (const Refusal& r : refusals) {
    GoldenCase c = load_golden(r.variant);
    set(c, r.key, r.value);
    EXPECT_THAT(error(c), HasSubstr(r.message)) << r.variant;
  }
}

TEST_F(DenseLoad, TextModelsInsideWrappersAreTheSame) {
  struct Wrapper {
    const char *variant, *model_type, *prefix;
  };
  for (const Wrapper& w : {Wrapper{"gemma3/base", "gemma3", "language_model."},
                           Wrapper{"gemma4/base", "gemma4", "model.language_model"},
                           Wrapper{"ministral3/base", "mistral3", "language_model."}}) {
    GoldenCase c = load_golden(w.variant);
    const auto plain = logits(c);
    Json wrapped = Json::object();
    wrapped.set("model_type", w.model_type);
    wrapped.set("text_config", c.config);
    c.config_text = wrapped.dump();
    const uint64_t seed = c.seed;
    const TempDir folder;
    write_safetensors_checkpoint(c, folder.path(), [&](const std::string& name) {
      const bool inside = std::string_view(w.prefix).starts_with("model.");
      return inside ? w.prefix + name.substr(std::string_view("model").size()) : w.prefix + name;
    });
    ASSERT_EQ(c.seed, seed);
    const auto model = models::load(io::open_checkpoint(folder.path()));
    DirectCaches caches(model.lm->spec(), 1, static_cast<int64_t>(c.prompt.size()));
    const DirectCaches::Piece prompt{.sequence = 0, .tokens = c.prompt};
    const Tensor out = caches.forward(*model.lm, {&prompt, 1});
    EXPECT_TRUE(std::ranges::equal(out.host<float>(), plain)) << w.model_type;
  }
}

TEST_F(DenseLoad, PatternOfLettersIsAListOfTypes) {
  GoldenCase c = load_golden("exaone4/base");
  set(c, "layer_types",
      R"(["sliding_attention", "full_attention", "sliding_attention", "full_attention"])");
  const auto listed = logits(c);
  erase(c, "layer_types");
  set(c, "sliding_window_pattern", R"("LG")");
  EXPECT_EQ(logits(c), listed);
  set(c, "sliding_window_pattern", R"("LGL")");  // the last layer is global in any case
  EXPECT_EQ(logits(c), listed);
}

TEST_F(DenseLoad, SharingLayersKeepNothing) {
  const auto spec = load(load_golden("gemma4/shared_kv")).lm->spec();
  using Kind = nn::CacheSpec::Kind;
  ASSERT_EQ(spec.caches.size(), 6U);
  EXPECT_EQ(spec.caches[2].kind, Kind::Window);
  EXPECT_EQ(spec.caches[3].kind, Kind::Window);
  EXPECT_EQ(spec.caches[1].kind, Kind::Full);
  EXPECT_EQ(spec.caches[1].k_dim, 32);
  EXPECT_EQ(spec.caches[4].kind, Kind::None);
  EXPECT_EQ(spec.caches[5].kind, Kind::None);
}

TEST_F(DenseLoad, LongPromptsAreARegimeOfTheirOwn) {
  const auto model = load(load_golden("phi3/longrope_long"));
  EXPECT_EQ(model.lm->spec().prompt_regime, 32);
  EXPECT_EQ(load(load_golden("phi3/base")).lm->spec().prompt_regime, 0);
  // The same tokens give other logits in a longer prompt.
  const auto run = [&](int64_t prompt_length) {
    DirectCaches caches(model.lm->spec(), 1, 64);
    caches.set_prompt_length(0, prompt_length);
    const DirectCaches::Piece piece{.sequence = 0, .tokens = {1, 2, 3, 4, 5, 6, 7, 8}};
    const Tensor out = caches.forward(*model.lm, {&piece, 1});
    return std::vector<float>(out.host<float>().begin(), out.host<float>().end());
  };
  EXPECT_EQ(run(8), run(32));
  EXPECT_NE(run(32), run(33));
  EXPECT_EQ(run(33), run(50));
}

}  // namespace
}  // namespace mlxcel::testing

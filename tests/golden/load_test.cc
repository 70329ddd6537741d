// Loading checkpoints whose files and config disagree, and the registry of families.
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
using ::testing::Not;

class Load : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { backend::register_all(); }

  static void set(GoldenCase& c, std::string_view key, Json value) {
    c.config.set(key, std::move(value));
    c.config_text = c.config.dump();
  }
  static void erase(GoldenCase& c, std::string_view key) {
    std::erase_if(c.config.as_object(), [&](const Json::Member& m) { return m.first == key; });
    c.config_text = c.config.dump();
  }
  static void drop(GoldenCase& c, std::string_view part) {
    std::erase_if(c.tensors,
                  [&](const GoldenTensor& t) { return t.name.find(part) != std::string::npos; });
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

TEST_F(Load, MissingTensorsAreNamedTogether) {
  GoldenCase c = load_golden("llama/base");
  drop(c, "layers.1.mlp.up_proj");
  drop(c, "layers.2.self_attn.k_proj");
  drop(c, "model.norm");
  const std::string message = error(c);
  EXPECT_THAT(message, HasSubstr("3 tensors are missing"));
  EXPECT_THAT(message, HasSubstr("model.layers.1.mlp.up_proj.weight"));
  EXPECT_THAT(message, HasSubstr("model.layers.2.self_attn.k_proj.weight"));
  EXPECT_THAT(message, HasSubstr("model.norm.weight"));
}

TEST_F(Load, HugeSizesWithoutTensorsEndInAnError) {
  GoldenCase c = load_golden("llama/base");
  c.tensors.resize(1);
  c.tensors[0].name = "unrelated.weight";
  set(c, "num_hidden_layers", Json(4096));
  set(c, "intermediate_size", Json(1 << 22));
  set(c, "hidden_size", Json(1 << 20));
  EXPECT_THAT(error(c), HasSubstr("model.embed_tokens.weight"));
}

TEST_F(Load, WrongShapeNamesBothShapes) {
  GoldenCase c = load_golden("llama/base");
  set(c, "intermediate_size", Json(128));
  EXPECT_THAT(error(c), HasSubstr("[96, 64]"));
  EXPECT_THAT(error(c), HasSubstr("[128, 64]"));
}

TEST_F(Load, RequiredBiasesAreMissedAndUnwantedOnesIgnored) {
  GoldenCase c = load_golden("llama/base");
  set(c, "attention_bias", Json(true));
  EXPECT_THAT(error(c), HasSubstr("model.layers.0.self_attn.o_proj.bias"));
  GoldenCase biased = load_golden("llama/biases");
  const auto with = logits(biased);
  erase(biased, "attention_bias");  // the checkpoint decides
  EXPECT_EQ(logits(biased), with);
  set(biased, "attention_bias", Json(false));
  EXPECT_NE(logits(biased), with);
}

TEST_F(Load, TiedHeadThatIsInTheFileIsIgnored) {
  // The golden variant has a head that differs; the reference follows the config, as we must.
  GoldenCase c = load_golden("llama/tied_but_head_present");
  const auto with = logits(c);
  drop(c, "lm_head");
  EXPECT_EQ(logits(c), with);
  erase(c, "tie_word_embeddings");  // absent flag and no head: tied
  EXPECT_EQ(logits(c), with);
}

TEST_F(Load, UntiedHeadThatIsMissingIsAnError) {
  for (const char* name : {"llama/base", "llama/affine4_g32"}) {
    GoldenCase c = load_golden(name);
    drop(c, "lm_head");
    EXPECT_THAT(error(c), HasSubstr("1 tensor is missing: lm_head.weight")) << name;
  }
}

TEST_F(Load, AbsentTieFlagFollowsTheFile) {
  for (const char* name : {"llama/base", "llama/affine4_g32"}) {
    GoldenCase c = load_golden(name);
    const auto with = logits(c);
    erase(c, "tie_word_embeddings");
    EXPECT_EQ(logits(c), with) << name;
    set(c, "tie_word_embeddings", Json(true));
    EXPECT_NE(logits(c), with) << name;
  }
}

TEST_F(Load, UnknownModelTypeIsNamedAsWritten) {
  GoldenCase c = load_golden("llama/base");
  set(c, "model_type", Json("Frobnicator-9"));
  EXPECT_EQ(error(c), "Unsupported model type: Frobnicator-9");
  erase(c, "model_type");
  EXPECT_THAT(error(c), HasSubstr("model_type"));
  EXPECT_THAT(error(c), Not(HasSubstr("Unsupported")));
}

TEST_F(Load, ModelTypeMayBeInAnyCase) {
  GoldenCase c = load_golden("qwen3/base");
  set(c, "model_type", Json("QWEN3"));
  EXPECT_EQ(error(c), "no error");
  c = load_golden("mistral/window_8");
  const auto with = logits(c);
  set(c, "model_type", Json("Mistral"));
  EXPECT_EQ(logits(c), with);
}

TEST_F(Load, UnsupportedValuesAreNamed) {
  GoldenCase c = load_golden("llama/base");
  set(c, "hidden_act", Json("relu"));
  EXPECT_THAT(error(c), HasSubstr("hidden_act"));
  EXPECT_THAT(error(c), HasSubstr("relu"));
  c = load_golden("llama/base");
  set(c, "rope_scaling", Json::parse(R"({"rope_type": "spiral", "factor": 2.0})").value());
  EXPECT_THAT(error(c), HasSubstr("rope_scaling.rope_type = \"spiral\""));
  c = load_golden("llama/base");
  set(c, "partial_rotary_factor", Json(0.5));
  EXPECT_THAT(error(c), HasSubstr("partial_rotary_factor"));
}

TEST_F(Load, SpecSaysWhatTheEngineNeeds) {
  const auto spec = load(load_golden("qwen2/window")).lm->spec();
  EXPECT_EQ(spec.vocab_size, 256);
  EXPECT_EQ(spec.hidden_size, 64);
  EXPECT_EQ(spec.intermediate_size, 96);
  EXPECT_EQ(spec.max_positions, 512);
  ASSERT_EQ(spec.caches.size(), 3U);
  EXPECT_EQ(spec.caches[0].kind, nn::CacheSpec::Kind::Full);
  EXPECT_EQ(spec.caches[1].kind, nn::CacheSpec::Kind::Window);
  EXPECT_EQ(spec.caches[1].window, 9);
  EXPECT_EQ(spec.caches[1].num_kv_heads, 2);
  EXPECT_EQ(spec.caches[1].k_dim, 16);
}

TEST_F(Load, HiddenStatesCanBeCaptured) {
  const GoldenCase c = load_golden("llama/base");
  const auto model = load(c);
  EXPECT_GT(model.lm->weight_bytes(), 0);
  DirectCaches caches(model.lm->spec(), 1, 8);
  const DirectCaches::Piece piece{.sequence = 0, .tokens = {1, 2, 3}};
  std::vector<int> layers;
  caches.capture_hidden = [&](int layer, const Tensor& x) {
    layers.push_back(layer);
    EXPECT_EQ(x.shape(), (Shape{3, 64}));
  };
  (void)caches.forward(*model.lm, {&piece, 1});
  EXPECT_EQ(layers, (std::vector<int>{0, 1, 2}));
}

TEST(Registry, ListsEveryFamilyOnce) {
  std::vector<std::string_view> types;
  for (const models::Family* family : models::registry()) {
    EXPECT_FALSE(family->display_name.empty());
    for (const std::string_view type : family->model_types) {
      EXPECT_EQ(&models::find_family(type), family);
      EXPECT_EQ(std::ranges::count(types, type), 0) << type;
      types.push_back(type);
    }
  }
  for (const char* known :
       {"llama", "mistral", "qwen2", "qwen3", "gemma3_text", "phi3", "gpt2", "mamba", "qwen3_5"}) {
    EXPECT_EQ(std::ranges::count(types, known), 1) << known;
  }
  const Json json = models::registry_json();
  ASSERT_EQ(json.find("families")->size(), models::registry().size());
  for (const char* key : {"id", "display_name", "category", "model_types", "aliases", "runtimes",
                          "modalities_in", "output", "backends", "tensor_parallel",
                          "pipeline_parallel", "drafters", "kv_modes", "prefix_sharing"}) {
    EXPECT_NE(json.find("families")->as_array()[0].find(key), nullptr) << key;
  }
}

}  // namespace
}  // namespace mlxcel::testing

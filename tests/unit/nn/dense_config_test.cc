#include <gtest/gtest.h>

#include "base/json.h"
#include "nn/activation.h"
#include "nn/dense_config.h"

namespace mlxcel::nn {
namespace {

io::Config config(std::string_view changes) {
  Json c = Json::parse(R"({"hidden_size": 64, "intermediate_size": 96, "vocab_size": 256,
      "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2})")
               .value();
  const Json more = Json::parse(changes).value();
  for (const auto& [key, value] : more.as_object()) c.set(key, value);
  return io::Config::from_json(c, "config.json");
}

template <class Fn>
std::string error(Fn fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.message();
  }
  return "no error";
}

TEST(DenseConfig, AbsentKeysTakeTheDefaults) {
  const DenseConfig c(config(R"({"num_key_value_heads": null, "rms_norm_eps": 1e-5})"), {});
  EXPECT_EQ(c.num_kv_heads, 4);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.max_positions, 2048);
  EXPECT_FLOAT_EQ(c.norm_eps, 1e-5F);
  EXPECT_FALSE(c.tie_word_embeddings.has_value());
  EXPECT_EQ(DenseConfig(config("{}"), {.head_dim = 128}).head_dim, 128);
  EXPECT_EQ(DenseConfig(config(R"({"head_dim": 24})"), {.head_dim = 128}).head_dim, 24);
}

TEST(DenseConfig, NonsenseIsRefusedByName) {
  const auto expect = [](const char* changes, const char* part) {
    const std::string message = error([&] { (void)DenseConfig(config(changes), {}); });
    EXPECT_NE(message.find(part), std::string::npos) << changes << ": " << message;
  };
  expect(R"({"hidden_size": 0})", "hidden_size");
  expect(R"({"hidden_size": -64})", "hidden_size");
  expect(R"({"hidden_size": 9223372036854775807})", "hidden_size");
  expect(R"({"vocab_size": 1e300})", "vocab_size");
  expect(R"({"num_hidden_layers": 100000})", "num_hidden_layers");
  expect(R"({"num_hidden_layers": "three"})", "num_hidden_layers");
  expect(R"({"num_attention_heads": 3, "num_key_value_heads": 3})", "num_attention_heads = 3");
  expect(R"({"num_key_value_heads": 3})", "num_key_value_heads = 3");
  expect(R"({"rms_norm_eps": -1})", "rms_norm_eps");
}

TEST(DenseConfig, FamiliesHaveKeysOfTheirOwn) {
  const io::Config c = config(R"({"n_embd": 48, "n_layer": 2, "layer_norm_epsilon": 1e-5})");
  const DenseConfig d(c, {.intermediate_size = 7,
                          .hidden_size_key = "n_embd",
                          .intermediate_size_key = "n_inner",
                          .num_layers_key = "n_layer",
                          .norm_eps_key = "layer_norm_epsilon"});
  EXPECT_EQ(d.hidden_size, 48);
  EXPECT_EQ(d.intermediate_size, 7);
  EXPECT_EQ(d.num_layers, 2);
  EXPECT_FLOAT_EQ(d.norm_eps, 1e-5F);
}

TEST(Activation, NamesOfTheReferenceAreKnownAndOthersRefused) {
  const auto named = [](const char* name) {
    Json c = Json::object();
    c.set("hidden_act", name);
    return activation_from(io::Config::from_json(c, "config.json"), "hidden_act", "silu");
  };
  EXPECT_EQ(named("swish"), ops::Activation::Silu);
  EXPECT_EQ(named("gelu"), ops::Activation::Gelu);
  EXPECT_EQ(named("gelu_new"), ops::Activation::GeluTanh);
  EXPECT_EQ(named("gelu_pytorch_tanh"), ops::Activation::GeluTanh);
  EXPECT_EQ(named("relu2"), ops::Activation::Relu2);
  EXPECT_EQ(activation_from(config("{}"), "hidden_act", "relu"), ops::Activation::Relu);
  const std::string message = error([&] { (void)named("mish"); });
  EXPECT_NE(message.find("hidden_act = \"mish\" is not supported"), std::string::npos) << message;
}

TEST(SlidingLayers, FollowTheListOrThePattern) {
  using Sliding = std::vector<bool>;
  EXPECT_EQ(sliding_layers(config("{}"), 3), Sliding{});
  EXPECT_EQ(sliding_layers(config("{}"), 5, 2), (Sliding{true, false, true, false, true}));
  const auto listed = config(R"({"layer_types": ["full_attention", "sliding_attention"]})");
  EXPECT_EQ(sliding_layers(listed, 2, 2), (Sliding{false, true}));
  const std::string message = error(
      [&] { (void)sliding_layers(config(R"({"layer_types": ["chunked_attention"]})"), 1, 2); });
  EXPECT_NE(message.find("layer_types[0] = \"chunked_attention\""), std::string::npos) << message;
}

TEST(Numbers, NullAndNonsense) {
  const auto c = config(R"({"a": null, "b": 0.0, "c": 2.5})");
  EXPECT_EQ(positive_or_null(c, "a", 50.0F), 0.0F);
  EXPECT_EQ(positive_or_null(c, "absent", 50.0F), 50.0F);
  EXPECT_EQ(positive_or_null(c, "c", 50.0F), 2.5F);
  EXPECT_NE(error([&] { (void)positive_or_null(c, "b", 1.0F); }).find("b = 0"), std::string::npos);
  EXPECT_EQ(window_from(c, "a", 4096), 0);
  EXPECT_EQ(window_from(c, "absent", 4096), 4096);
}

TEST(QwenWindows, FollowTheThreeKeys) {
  using Windows = std::vector<int32_t>;
  EXPECT_EQ(qwen_windows(config("{}"), 3), (Windows{0, 0, 0}));
  EXPECT_EQ(qwen_windows(config(R"({"sliding_window": 9, "max_window_layers": 1})"), 3),
            (Windows{0, 0, 0}));
  EXPECT_EQ(qwen_windows(config(R"({"use_sliding_window": true, "sliding_window": 9,
                                    "max_window_layers": 1})"),
                         3),
            (Windows{0, 9, 9}));
  EXPECT_EQ(qwen_windows(config(R"({"use_sliding_window": true, "sliding_window": null,
                                    "max_window_layers": 1})"),
                         3),
            (Windows{0, 0, 0}));
  EXPECT_EQ(qwen_windows(config(R"({"use_sliding_window": true, "sliding_window": 5, "layer_types":
                                    ["sliding_attention", "full_attention", "sliding_attention"]})"),
                         3),
            (Windows{5, 0, 5}));
}

TEST(QwenWindows, ContradictionsAreRefused) {
  const auto expect = [](const char* changes, const char* part) {
    const std::string message = error([&] { (void)qwen_windows(config(changes), 2); });
    EXPECT_NE(message.find(part), std::string::npos) << changes << ": " << message;
  };
  expect(R"({"layer_types": ["full_attention"]})", "layer_types has 1 entries for 2 layers");
  expect(R"({"layer_types": ["full_attention", "chunked_attention"]})", "\"chunked_attention\"");
  expect(R"({"layer_types": ["full_attention", "sliding_attention"]})",
         "use_sliding_window is off");
}

TEST(Biases, TheConfigDecidesWhenItSpeaks) {
  EXPECT_EQ(bias_from(config("{}"), "attention_bias"), Bias::IfPresent);
  EXPECT_EQ(bias_from(config(R"({"attention_bias": true})"), "attention_bias"), Bias::Required);
  EXPECT_EQ(bias_from(config(R"({"attention_bias": false})"), "attention_bias"), Bias::None);
}

}  // namespace
}  // namespace mlxcel::nn

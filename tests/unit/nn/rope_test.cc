#include "nn/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/register.h"
#include "base/json.h"

namespace mlxcel::nn {
namespace {

RopeConfig rope(const std::string& json, std::string_view layer_type = "full_attention") {
  return RopeConfig::from(io::Config::from_json(Json::parse(json).value(), "config.json"), 64, 4096,
                          layer_type);
}

std::string error(const std::string& json, std::string_view layer_type = "full_attention") {
  try {
    (void)rope(json, layer_type);
  } catch (const Error& e) {
    return e.message();
  }
  return "no error";
}

std::string longrope(const std::string& more) {
  std::string list = "[1.0";
  for (int i = 1; i < 32; ++i) list += ", " + std::to_string(1 + i);
  return R"({"original_max_position_embeddings": 1024, "rope_scaling": {"rope_type": "longrope",
      "short_factor": )" +
         list + "], \"long_factor\": " + list + "]" + more + "}}";
}

TEST(RopeConfig, BothLayoutsMeanTheSame) {
  const std::vector<float> expected = rope_frequencies(rope(R"({"rope_theta": 500000.0})"), 1);
  for (
      const char* json : {
          R"({"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})",
          R"({"rope_theta": 500000, "rope_parameters": {"rope_theta": 500000, "rope_type": "default"}})",
          R"({"rope_theta": 1.5, "rope_parameters": {"rope_theta": 500000.0}})",
          R"({"rope_theta": 500000.0, "rope_scaling": null})",
          R"({"rope_theta": 500000.0, "rope_scaling": {}, "rope_parameters": {}})",
          R"({"rope_theta": 500000.0, "rope_scaling": {"type": "default"}})",
          R"({"rope_parameters": {"full_attention": {"rope_theta": 500000.0}, "sliding_attention": {"rope_theta": 7}}})",
      }) {
    EXPECT_EQ(rope_frequencies(rope(json), 1), expected) << json;
  }
  EXPECT_EQ(rope("{}").theta, 10000.0);
}

TEST(RopeConfig, TypeHasTwoSpellings) {
  for (const char* key : {"type", "rope_type"}) {
    const RopeConfig c =
        rope(std::string(R"({"rope_scaling": {"factor": 4.0, ")") + key + R"(": "linear"}})");
    EXPECT_EQ(c.type, RopeConfig::Type::Linear);
    EXPECT_EQ(c.factor, 4.0);
    EXPECT_FLOAT_EQ(rope_frequencies(c, 1)[0], 0.25F);
  }
}

TEST(RopeConfig, LayersOfOneTypeGetTheirOwnSettings) {
  const char* json = R"({"rope_theta": 3.0, "rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
      "sliding_attention": {"rope_type": "default"}}})";
  EXPECT_EQ(rope(json, "full_attention").theta, 1000000.0);
  EXPECT_EQ(rope(json, "sliding_attention").type, RopeConfig::Type::Default);
  EXPECT_EQ(rope(json, "sliding_attention").theta, 3.0);
  EXPECT_NE(error(json, "chunked_attention").find("\"chunked_attention\""), std::string::npos);
}

TEST(RopeConfig, ErrorsNameKeyAndValue) {
  const auto expect = [](const char* json, const char* part) {
    EXPECT_NE(error(json).find(part), std::string::npos) << json << ": " << error(json);
  };
  expect(R"({"rope_scaling": {"rope_type": "spiral"}})", "rope_scaling.rope_type = \"spiral\"");
  expect(R"({"rope_scaling": {"type": "su"}})", "rope_scaling.short_factor is missing");
  expect(R"({"rope_scaling": {"type": "su", "short_factor": [1.0]}})",
         "rope_scaling.short_factor has 1 entries, expected 32");
  expect(longrope(R"(, "short_mscale": -1.0)").c_str(), "rope_scaling.short_mscale = -1");
  expect(R"({"rope_parameters": {"rope_type": "mrope"}})", "rope_parameters.rope_type = \"mrope\"");
  expect(R"({"rope_scaling": {"type": "linear"}})", "factor");
  expect(R"({"rope_scaling": {"type": "linear", "factor": 0}})", "rope_scaling.factor = 0");
  expect(R"({"rope_scaling": {"type": "dynamic", "factor": 0.5}})", "dynamic");
  expect(R"({"rope_scaling": {"type": "dynamic", "factor": 2, "alpha": 1000}})", "alpha = 1000");
  expect(R"({"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 4,
             "high_freq_factor": 1}})",
         "high_freq_factor = 1");
  expect(R"({"rope_theta": -1})", "config.json: rope_parameters.rope_theta = -1");
  expect(R"({"partial_rotary_factor": 0.01})", "partial_rotary_factor 0.01");
  expect(R"({"partial_rotary_factor": 3})", "partial_rotary_factor 3");
  expect(R"({"rope_freq_factors": [1.0]})", "rope_freq_factors has 1 entries, expected 32");
}

TEST(RopeConfig, UsablePositionsFollowTheScaling) {
  EXPECT_EQ(rope("{}").usable_positions(), 4096);
  EXPECT_EQ(rope(R"({"rope_scaling": {"type": "dynamic", "factor": 2.5}})").usable_positions(),
            10240);
  EXPECT_EQ(rope(R"({"rope_scaling": {"type": "yarn", "factor": 4,
                     "original_max_position_embeddings": 4096}})")
                .usable_positions(),
            16384);
}

TEST(RopeConfig, YarnAttentionFactor) {
  const auto factor = [](const std::string& more) {
    return rope(R"({"rope_scaling": {"type": "yarn", "factor": 16)" + more + "}}").attention_factor;
  };
  EXPECT_FLOAT_EQ(factor(""), static_cast<float>(0.1 * std::log(16.0) + 1.0));
  EXPECT_FLOAT_EQ(factor(R"(, "mscale": 1, "mscale_all_dim": 1)"), 1.0F);
  EXPECT_FLOAT_EQ(factor(R"(, "mscale": 1)"), static_cast<float>(0.1 * std::log(16.0) + 1.0));
  EXPECT_FLOAT_EQ(factor(R"(, "attention_factor": 1.25)"), 1.25F);
}

TEST(RopeConfig, LongRopeScalesEveryFrequencyByItself) {
  const RopeConfig c = rope(longrope(R"(, "short_mscale": 1.25)"));
  EXPECT_EQ(c.original_max_positions, 1024);
  EXPECT_FLOAT_EQ(c.attention_factor, 1.25F);
  // sqrt(1 + ln(4096 / 1024) / ln(1024))
  EXPECT_FLOAT_EQ(c.long_attention_factor, static_cast<float>(std::sqrt(1.2)));
  const auto plain = rope_frequencies(rope("{}"), 1), scaled = rope_frequencies(c, 1);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_FLOAT_EQ(scaled[i] * static_cast<float>(i + 1), plain[i]) << i;
  }
  EXPECT_EQ(Rope(c).prompt_regime(), 1024);
  EXPECT_EQ(Rope(rope("{}")).prompt_regime(), 0);
}

TEST(RopeConfig, ProportionalTurnsTheFirstPairsOnly) {
  const RopeConfig c = rope(R"({"rope_parameters": {"rope_type": "proportional", "factor": 2.0,
                                "partial_rotary_factor": 0.25, "rope_theta": 100.0}})");
  EXPECT_EQ(c.rotary_dim, 64);
  const auto f = rope_frequencies(c, 1);
  ASSERT_EQ(f.size(), 32U);
  EXPECT_FLOAT_EQ(f[0], 0.5F);
  EXPECT_FLOAT_EQ(f[7], 0.5F / std::pow(100.0F, 14.0F / 64.0F));
  EXPECT_EQ(f[8], 0.0F);
  EXPECT_EQ(f[31], 0.0F);
}

TEST(RopeConfig, FamiliesGiveDefaults) {
  const auto read = [](const char* json, const RopeConfig::Defaults& defaults) {
    return RopeConfig::from(io::Config::from_json(Json::parse(json).value(), "config.json"), 64,
                            4096, "sliding_attention", defaults);
  };
  EXPECT_EQ(read("{}", {.theta = 5.0, .partial_rotary_factor = 0.5}).theta, 5.0);
  EXPECT_EQ(read("{}", {.partial_rotary_factor = 0.5}).rotary_dim, 32);
  EXPECT_TRUE(read("{}", {.interleaved = true}).interleaved);
  const char* flat = R"({"local": 7.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0}})";
  const RopeConfig local = read(flat, {.theta_key = "local", .flat_settings = false});
  EXPECT_EQ(local.theta, 7.0);
  EXPECT_EQ(local.type, RopeConfig::Type::Default);
  EXPECT_EQ(read(flat, {}).type, RopeConfig::Type::Linear);
  const RopeConfig fixed =
      read(R"({"rope_scaling": {"type": "dynamic", "alpha": 16.0}})", {.fixed_alpha = true});
  EXPECT_EQ(fixed.type, RopeConfig::Type::Default);
  EXPECT_DOUBLE_EQ(fixed.theta, 10000.0 * std::pow(16.0, 64.0 / 62.0));
}

TEST(Rope, DynamicBaseGrowsWithThePosition) {
  RopeConfig c;
  c.rotary_dim = 8;
  c.type = RopeConfig::Type::Dynamic;
  c.factor = 2.0;
  c.max_positions = 10;
  EXPECT_EQ(rope_frequencies(c, 3), rope_frequencies(c, 10));
  // Base 10000 * (2 * 15 / 10 - 1)^(8 / 6) at length 15.
  EXPECT_NEAR(rope_frequencies(c, 15)[1], std::pow(10000.0 * std::pow(2.0, 8.0 / 6.0), -0.25),
              1e-7);
  const Rope r(c);
  EXPECT_EQ(r.inv_freq().shape(), (Shape{11, 4}));
}

TEST(Rope, RotatesEachTokenByItsOwnPosition) {
  backend::register_all();
  for (const bool dynamic : {false, true}) {
    RopeConfig c;
    c.rotary_dim = 4;
    c.max_positions = 10;
    c.factor = 4.0;
    if (dynamic) c.type = RopeConfig::Type::Dynamic;
    const std::vector<int32_t> positions = {0, 9, 10, 25, 39};
    const auto tokens = static_cast<int64_t>(positions.size());
    std::vector<float> values;
    for (int64_t i = 0; i < tokens * 2 * 4; ++i) values.push_back(static_cast<float>(i % 7) - 3.0F);
    Tensor q = Tensor::of(values, Shape{tokens, 2, 4});
    Tensor k =
        Tensor::of(std::span(values).first(static_cast<size_t>(tokens * 4)), Shape{tokens, 1, 4});
    Rope(c).apply(q, k, Tensor::of(positions, Shape{tokens}));
    for (size_t t = 0; t < positions.size(); ++t) {
      const auto freqs = rope_frequencies(c, positions[t] + 1);
      for (size_t h = 0; h < 2; ++h) {
        for (size_t i = 0; i < 2; ++i) {
          const size_t at = (t * 2 + h) * 4 + i;
          const double angle = double{static_cast<float>(positions[t]) * freqs[i]};
          const double x = values[at], y = values[at + 2];
          EXPECT_NEAR(q.host<float>()[at], x * std::cos(angle) - y * std::sin(angle), 2e-6);
          EXPECT_NEAR(q.host<float>()[at + 2], y * std::cos(angle) + x * std::sin(angle), 2e-6);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mlxcel::nn

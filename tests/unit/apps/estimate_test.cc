#include <gmock/gmock.h>

#include <filesystem>

#include "apps/kv_geometry.h"
#include "apps/memory_estimate.h"
#include "base/error.h"
#include "testing/env.h"
#include "testing/paths.h"

namespace mlxcel::apps {
namespace {

using ::testing::HasSubstr;

io::Config config(const char* json) {
  return io::Config::from_json(Json::parse(json).value(), "test");
}

TEST(KvGeometry, PlainGroupedQueryAttention) {
  // Qwen3-4B: 36 layers, 8 key/value heads of 128.
  const KvGeometry kv = kv_geometry(config(
      R"({"model_type": "qwen3", "num_hidden_layers": 36, "num_attention_heads": 32,
          "num_key_value_heads": 8, "head_dim": 128, "hidden_size": 2560})"));
  ASSERT_EQ(kv.groups.size(), 1U);
  EXPECT_EQ(kv.k_elements_per_token() + kv.v_elements_per_token(), 36 * 2 * 8 * 128);
  EXPECT_EQ(kv.groups[0].cached_tokens(1), 256);
  EXPECT_EQ(kv.groups[0].cached_tokens(8192), 8192);
  EXPECT_EQ(kv.detail, "36 layers x 8 kv heads x 128");
}

TEST(KvGeometry, SlidingWindowsByTypeAndByPattern) {
  const KvGeometry listed = kv_geometry(config(
      R"({"num_hidden_layers": 4, "num_attention_heads": 2, "head_dim": 8, "sliding_window": 300,
          "layer_types": ["sliding_attention", "full_attention", "sliding_attention",
                          "full_attention"]})"));
  ASSERT_EQ(listed.groups.size(), 2U);
  EXPECT_EQ(listed.groups[1].layers, 2);
  EXPECT_EQ(listed.groups[1].cached_tokens(8192), 512);
  EXPECT_EQ(listed.groups[1].cached_tokens(100), 256);
  const KvGeometry pattern = kv_geometry(config(
      R"({"num_hidden_layers": 12, "num_attention_heads": 2, "head_dim": 8, "sliding_window": 512,
          "sliding_window_pattern": 6})"));
  ASSERT_EQ(pattern.groups.size(), 2U);
  EXPECT_EQ(pattern.groups[0].layers, 2);
  EXPECT_EQ(pattern.groups[1].layers, 10);
}

TEST(KvGeometry, LatentRecurrentAndHybrid) {
  const KvGeometry v3 = kv_geometry(config(
      R"({"model_type": "deepseek_v3", "num_hidden_layers": 61, "num_attention_heads": 128,
          "kv_lora_rank": 512, "qk_rope_head_dim": 64})"));
  EXPECT_EQ(v3.k_elements_per_token() + v3.v_elements_per_token(), 61 * 576);
  const KvGeometry v2 = kv_geometry(config(
      R"({"model_type": "deepseek_v2", "num_hidden_layers": 2, "num_attention_heads": 16,
          "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
          "v_head_dim": 128})"));
  EXPECT_EQ(v2.k_elements_per_token() + v2.v_elements_per_token(), 2 * 16 * (128 + 64 + 128));
  EXPECT_TRUE(kv_geometry(config(R"({"model_type": "mamba2"})")).groups.empty());
  const char* hybrids[] = {
      R"({"num_hidden_layers": 8, "full_attention_interval": 4})",
      R"({"num_hidden_layers": 8, "attn_layer_period": 4, "attn_layer_offset": 1})",
      R"({"num_hidden_layers": 8, "hybrid_override_pattern": "M-M*M-M*"})",
      R"({"num_hidden_layers": 6, "block_types": ["recurrent", "recurrent", "attention"]})"};
  for (const char* json : hybrids) {
    const KvGeometry kv = kv_geometry(config(json));
    ASSERT_EQ(kv.groups.size(), 1U) << json;
    EXPECT_EQ(kv.groups[0].layers, 2) << json;
  }
}

TEST(KvGeometry, TextSectionOfAMultimodalModel) {
  const KvGeometry kv = kv_geometry(config(
      R"({"model_type": "vlm", "text_config": {"num_hidden_layers": 3, "num_attention_heads": 4,
          "head_dim": 16}})"));
  EXPECT_EQ(kv.k_elements_per_token(), 3 * 4 * 16);
}

TEST(KvGeometry, AbsurdNumbersAreRefused) {
  EXPECT_THROW(kv_geometry(config(R"({"num_hidden_layers": 100000000})")), Error);
  EXPECT_THROW(kv_geometry(config(R"({"num_attention_heads": -1})")), Error);
  EXPECT_THROW(kv_geometry(config(R"({"num_attention_heads": 0})")), Error);
}

class Estimate : public ::testing::Test {
 protected:
  Estimate() {
    dir_.write("config.json",
               R"({"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4,
                   "num_key_value_heads": 2, "hidden_size": 64, "intermediate_size": 128,
                   "vocab_size": 1000})");
  }
  /// A SafeTensors file with `bytes` of data.
  void weights(const std::string& name, size_t bytes) const {
    const std::string header = "{}      ";
    dir_.write(name, std::string("\x08\0\0\0\0\0\0\0", 8) + header + std::string(bytes, 'x'));
  }
  MemoryEstimate estimate(const EstimateInputs& inputs = {}) const {
    return estimate_memory(dir_.path(), "name", inputs);
  }
  testing::TempDir dir_;
  testing::ScopedEnv limit_{"MLXCEL_MEMORY_LIMIT", "1G"};
  testing::ScopedEnv factor_{"MLXCEL_HEADROOM_FACTOR", std::nullopt};
  testing::ScopedEnv activation_{"MLXCEL_ACTIVATION_MULT", std::nullopt};
};

TEST_F(Estimate, SumsByTheFormula) {
  weights("a.safetensors", 1000);
  weights("b.safetensors", 500);
  const MemoryEstimate e = estimate({.context_tokens = 300, .batch = 2});
  EXPECT_EQ(e.weights, 1500);
  EXPECT_EQ(e.weights_source, "safetensors_header");
  EXPECT_EQ(e.family, "llama");
  const int64_t kv = 2 * (2 * 2 * 16) * 512 * 2 * 2;
  EXPECT_EQ(e.kv_per_token_fp16, 2 * (2 * 2 * 16) * 2);
  EXPECT_EQ(e.kv_total, kv);
  const int64_t activation = 2 * 2 * 300 * (64 + 128) * 2 + 2 * 1000 * 2;
  EXPECT_EQ(e.activation, activation);
  EXPECT_EQ(e.allocator_overhead, (1500 + kv + 2) / 5);
  EXPECT_EQ(e.headroom, e.allocator_overhead + activation);
  EXPECT_EQ(e.total, 1500 + kv + e.headroom);
  EXPECT_EQ(e.available, int64_t{1} << 30);
  EXPECT_TRUE(e.fits);
  EXPECT_EQ(estimate({.context_tokens = 300, .batch = 2, .cache_type_k = "int8"}).kv_total,
            kv * 3 / 4);
}

TEST_F(Estimate, WeightFilesThatAreNoFilesAreNamed) {
  std::filesystem::create_symlink("gone", dir_.file("a.safetensors"));
  try {
    estimate();
    FAIL() << "a link to nothing was counted";
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("a.safetensors: not a file"), std::string::npos) << e.message();
  }
}

TEST_F(Estimate, WeightsComeFromTheBestSource) {
  EXPECT_EQ(estimate().weights_source, "analytical_config");
  weights("a.safetensors", 10);
  dir_.write("model.safetensors.index.json", R"({"metadata": {"total_size": 123456}})");
  EXPECT_EQ(estimate().weights, 123456);
  EXPECT_EQ(estimate().weights_source, "safetensors_index");
  dir_.write("config.json", R"({"model_type": "what"})");
  dir_.write("model.safetensors.index.json", "{}");
  EXPECT_EQ(estimate().weights_source, "safetensors_header");
  EXPECT_FALSE(estimate().family);
}

TEST_F(Estimate, DamagedHeaderIsNamed) {
  dir_.write("a.safetensors", "short");
  EXPECT_THROW(estimate(), Error);
  dir_.write("a.safetensors", std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8) + "{}");
  EXPECT_THROW(estimate(), Error);
}

TEST_F(Estimate, FactorsFromTheEnvironment) {
  weights("a.safetensors", 1'000'000);
  {
    const testing::ScopedEnv factor("MLXCEL_HEADROOM_FACTOR", "1.0");
    EXPECT_EQ(estimate().allocator_overhead, 0);
  }
  const testing::ScopedEnv bad("MLXCEL_HEADROOM_FACTOR", "-3");
  ::testing::internal::CaptureStderr();
  EXPECT_DOUBLE_EQ(estimate().headroom_factor, 1.20);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("MLXCEL_HEADROOM_FACTOR"));
}

TEST_F(Estimate, BannerHasItsLinesInOrder) {
  weights("a.safetensors", 3 << 20);
  const std::string banner = estimate_banner(estimate());
  size_t at = 0;
  for (const char* part : {"=== Memory Estimate ===\n",
                           "Model:",
                           "name (llama)",
                           "Context length:",
                           "8192 tokens (batch = 1)",
                           "Quant hint:",
                           "KV dtype:",
                           "fp16\n\n",
                           "Weights:",
                           "3.0 MiB (3145728 bytes) (safetensors_header)",
                           "KV cache:",
                           "per token:",
                           "Activation:",
                           "Allocator ovhd:",
                           "(factor 1.20x on weights+kv)",
                           "-----\n",
                           "Total estimate:",
                           "Available:",
                           "1.00 GiB (1073741824 bytes)\n\n",
                           "FITS: ",
                           " of headroom\n"}) {
    at = banner.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << " in\n" << banner;
  }
  const testing::ScopedEnv small("MLXCEL_MEMORY_LIMIT", "1K");
  EXPECT_THAT(estimate_banner(estimate()), HasSubstr("DOES NOT FIT: "));
}

TEST_F(Estimate, JsonHasEveryField) {
  const Json json = estimate_json(estimate());
  for (const char* key :
       {"model", "model_type", "family", "inputs", "weights_bytes", "weights_source",
        "kv_bytes_per_token", "kv_bytes_total", "kv_detail", "per_slot_overhead_bytes",
        "activation_bytes", "backend_inflight_bytes", "headroom_bytes", "headroom_factor",
        "budget_bytes", "total_bytes", "fits"}) {
    EXPECT_NE(json.find(key), nullptr) << key;
  }
  EXPECT_TRUE(json.find("per_slot_overhead_bytes")->is_null());
  EXPECT_TRUE(json.find("kv_bytes_per_token")->find("turbo4")->is_null());
}

TEST_F(Estimate, NothingOverflows) {
  dir_.write("config.json",
             R"({"model_type": "llama", "num_hidden_layers": 4096,
                 "num_attention_heads": 2147483648, "head_dim": 2147483648,
                 "hidden_size": 2147483648, "vocab_size": 2147483648,
                 "intermediate_size": 2147483648})");
  const MemoryEstimate e = estimate({.context_tokens = int64_t{1} << 31, .batch = 65536});
  EXPECT_FALSE(e.fits);
  EXPECT_GT(e.total, 0);
}

TEST(ByteText, Units) {
  EXPECT_EQ(byte_text(12), "12 bytes");
  EXPECT_EQ(byte_text(1572864), "1.5 MiB (1572864 bytes)");
  EXPECT_EQ(byte_text(1610612736), "1.50 GiB (1610612736 bytes)");
}

}  // namespace
}  // namespace mlxcel::apps

#include "io/weights.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "errors.h"
#include "io/checkpoint.h"
#include "io/weights_root.h"
#include "testing/paths.h"
#include "testing/safetensors_writer.h"

namespace mlxcel::io {
namespace {

using mlxcel::testing::SafetensorsWriter;
using mlxcel::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class WeightsTest : public ::testing::Test {
 protected:
  Weights open(const SafetensorsWriter& writer, const std::string& config = "{}",
               std::vector<Rename> renames = {}) const {
    writer.write(dir_.file("model.safetensors"));
    dir_.write("config.json", config);
    return open_checkpoint(dir_.path()).weights(renames);
  }
  TempDir dir_;
};

std::vector<float> numbers(size_t n) {
  std::vector<float> out(n);
  std::iota(out.begin(), out.end(), 1.0F);
  return out;
}

TEST_F(WeightsTest, TakesInStoredTypeWithoutCopy) {
  const Weights w = open(SafetensorsWriter()
                             .add("m.a.weight", DType::F32, {2, 3}, numbers(6))
                             .add("m.a.bias", DType::BF16, {3}, numbers(3))
                             .add("m.other", DType::F16, {4}, numbers(4)));
  const Weights a = w.at("m").at("a");
  EXPECT_EQ(a.path(), "m.a");
  EXPECT_TRUE(a.has("weight"));
  EXPECT_TRUE(w.has("m"));
  EXPECT_TRUE(w.has("m.a"));
  EXPECT_FALSE(w.has("m.b"));
  EXPECT_FALSE(w.at("m").has("othe"));
  EXPECT_THAT(w.unused(), ElementsAre("m.a.bias", "m.a.weight", "m.other"));
  const Tensor t = a.take("weight", {2, 3});
  EXPECT_FALSE(t.buffer()->writable());
  EXPECT_THAT(t.host<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(a.take("bias", {3}).dtype(), DType::BF16);
  EXPECT_THAT(a.take_f32("bias", {3}).host<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(w.unused(), ElementsAre("m.other"));
  EXPECT_EQ(w.total_bytes(), 24 + 6 + 8);
  EXPECT_EQ(w.at("m").at("layers", 3).path(), "m.layers.3");
}

TEST_F(WeightsTest, UnalignedTensorsAreCopied) {
  const Weights w = open(SafetensorsWriter()
                             .add("byte", DType::U8, {1}, std::string("x"))
                             .add("w.weight", DType::F32, {2, 2}, numbers(4)));
  EXPECT_THAT(w.at("w").take("weight", {2, 2}).host<float>(), ElementsAre(1, 2, 3, 4));
  const auto m = w.at("w").take_matrix(2, 2);
  EXPECT_EQ(m->dense_rows(0), nullptr);
  float row[2];
  m->read_f32(1, 1, row);
  EXPECT_THAT(row, ElementsAre(3, 4));
}

TEST_F(WeightsTest, WrongShapesNameBoth) {
  const Weights w = open(SafetensorsWriter().add("a.weight", DType::F32, {2, 3}, numbers(6)));
  for (const Shape& s : {Shape{3, 2}, Shape{6}, Shape{2, 3, 1}, Shape{2}}) {
    expect_error(Code::Corrupt,
                 "\"a.weight\" has shape [2, 3], but the configuration asks for " + s.str(),
                 [&] { w.at("a").take("weight", s); });
  }
  expect_error(Code::Corrupt, "asks for [3, 2]", [&] { w.at("a").take_matrix(3, 2); });
  expect_error(Code::Corrupt, "asks for [1, 6]", [&] { w.at("a").take_matrix(1, 6); });
}

TEST_F(WeightsTest, AllMissingTensorsAreRecorded) {
  const Weights w = open(SafetensorsWriter().add("a", DType::F32, {1}, numbers(1)));
  const Tensor t = w.at("x").take("bias", {3});
  EXPECT_THAT(t.host<float>(), ElementsAre(0, 0, 0));
  const auto m = w.at("y").take_matrix(1 << 14, 1 << 10);
  EXPECT_EQ(m->rows(), 1 << 14);
  float row[1 << 10];
  m->read_f32(5, 1, row);
  EXPECT_EQ(row[9], 0.0F);
  EXPECT_THROW(m->read_f32((1 << 14) - 1, 2, row), Error);
  EXPECT_THAT(w.missing(), ElementsAre("x.bias", "y.weight"));
  // Absurd sizes end the load instead of filling the memory.
  expect_error(Code::Corrupt, "\"y.weight\"", [&] { w.at("z").take_matrix(1 << 20, 1 << 20); });
  expect_error(Code::Corrupt, "3 tensors were missing",
               [&] { w.at("z").take("weight", {int64_t{1} << 40}); });
}

TEST_F(WeightsTest, RenamesApplyInOrder) {
  const std::vector<Rename> rules = {{"language_model.*", "*"},
                                     {"*.rotary_emb.inv_freq", ""},
                                     {"model.*.gamma", "model.*.weight"},
                                     {"transformer.wte.weight", "model.embed_tokens.weight"}};
  EXPECT_EQ(renamed("language_model.model.norm.gamma", rules), "model.norm.weight");
  EXPECT_EQ(renamed("a.rotary_emb.inv_freq", rules), std::nullopt);
  EXPECT_EQ(renamed("transformer.wte.weight", rules), "model.embed_tokens.weight");
  EXPECT_EQ(renamed("transformer.wte.weights", rules), "transformer.wte.weights");
  EXPECT_EQ(renamed("model.gamma", rules), "model.gamma");  // "model." and ".gamma" must not share
  const SafetensorsWriter two = SafetensorsWriter()
                                    .add("a.x", DType::F32, {1}, numbers(1))
                                    .add("b.x", DType::F32, {1}, numbers(1));
  const Weights w = open(two, "{}", {{"a.*", ""}, {"b.*", "c.*"}});
  EXPECT_THAT(w.unused(), ElementsAre("c.x"));
  expect_error(Code::Corrupt, "\"b.x\" occurs more than once",
               [&] { open(two, "{}", {{"a.*", "b.*"}}); });
}

SafetensorsWriter affine(std::vector<int64_t> codes, std::vector<int64_t> scales,
                         std::vector<int64_t> biases, DType codes_type = DType::U32,
                         DType scale_type = DType::F16) {
  const auto bytes = [](const std::vector<int64_t>& dims, DType t) {
    int64_t n = size_of(t);
    for (const int64_t d : dims) n *= d;
    return std::string(static_cast<size_t>(n), '\0');
  };
  SafetensorsWriter w;
  w.add("q.weight", codes_type, codes, bytes(codes, codes_type));
  if (!scales.empty()) w.add("q.scales", scale_type, scales, bytes(scales, scale_type));
  if (!biases.empty()) w.add("q.biases", scale_type, biases, bytes(biases, scale_type));
  return w;
}

TEST_F(WeightsTest, AffineShapesMustFit) {
  const auto take = [&](const SafetensorsWriter& w, const std::string& config = "{}") {
    return open(w, config).at("q").take_matrix(4, 64);
  };
  EXPECT_EQ(take(affine({4, 8}, {4, 1}, {4, 1}))->format().bits, 4);
  EXPECT_EQ(take(affine({4, 6}, {4, 2}, {4, 2}))->format().bits, 3);
  const SafetensorsWriter bad[] = {
      affine({4, 7}, {4, 1}, {4, 1}),              // 3.5 bits
      affine({4, 14}, {4, 1}, {4, 1}),             // 7 bits
      affine({4, 32}, {4, 1}, {4, 1}),             // 16 bits
      affine({3, 8}, {4, 1}, {4, 1}),              // rows
      affine({4, 8}, {3, 1}, {3, 1}),              // rows of scales
      affine({4, 8}, {4, 2}, {4, 1}),              // scales unlike biases
      affine({4, 8}, {4, 8}, {4, 8}),              // groups of 8
      affine({4, 8}, {4, 3}, {4, 3}),              // groups of 21.3
      affine({32}, {4}, {4}),                      // rank
      affine({4, 8}, {4, 0}, {4, 0}),              // nothing
      affine({4, 8}, {4, 1}, {4, 1}, DType::I32),  // type of codes
      affine({4, 8}, {4, 1}, {4, 1}, DType::U32, DType::U8),
  };
  for (const SafetensorsWriter& w : bad) {
    expect_error(Code::Corrupt, "matrix \"q\" of 4 x 64 does not fit its tensors",
                 [&] { take(w); });
  }
  expect_error(Code::Unsupported, "scales but no \"q.biases\"",
               [&] { take(affine({4, 8}, {4, 1}, {})); });
  const Weights lost = open(SafetensorsWriter().add("q.scales", DType::F16, {4, 1}, numbers(4)));
  lost.at("q").take_matrix(4, 64);
  EXPECT_THAT(lost.missing(), ElementsAre("q.weight"));
}

TEST_F(WeightsTest, QuantizationOfTheConfig) {
  const SafetensorsWriter good = affine({4, 8}, {4, 1}, {4, 1});
  const auto take = [&](const std::string& config) {
    return open(good, config).at("q").take_matrix(4, 64)->format().bits;
  };
  // Shapes decide, also where the config says something else.
  for (
      const char* config :
      {R"({})", R"({"quantization":{"bits":4,"group_size":64}})",
       R"({"quantization":{"bits":8,"group_size":32,"mode":"affine"}})",
       R"({"quantization_config":{"bits":2,"group_size":128,"mode":null,"quant_method":"affine"}})",
       R"({"quantization":{"bits":2,"group_size":64,"q":{"bits":4,"group_size":64}}})",
       R"({"quantization":{"bits":2,"group_size":64,"q":false,"lm_head":true}})"}) {
    EXPECT_EQ(take(config), 4) << config;
  }
  for (const char* mode : {"mxfp5", "other"}) {
    expect_error(
        Code::Unsupported, fmt::format("quantization mode \"{}\" (\"quantization.mode\")", mode),
        [&] {
          take(fmt::format(R"({{"quantization":{{"bits":4,"group_size":32,"mode":"{}"}}}})", mode));
        });
    expect_error(
        Code::Unsupported, fmt::format("quantization mode \"{}\" (\"quantization.q.mode\")", mode),
        [&] {
          take(fmt::format(R"({{"quantization":{{"bits":4,"group_size":64,"q":{{"mode":"{}"}}}}}})",
                           mode));
        });
  }
  for (const char* method : {"gptq", "awq", "bitsandbytes"}) {
    expect_error(
        Code::Unsupported, fmt::format("\"quantization_config.quant_method\" \"{}\"", method),
        [&] { take(fmt::format(R"({{"quantization_config":{{"quant_method":"{}"}}}})", method)); });
  }
  const std::pair<const char*, const char*> settings[] = {
      {R"({"quant_method":"fp8","fmt":"e5m2"})", "\"quantization_config.fmt\" \"e5m2\""},
      {R"({"quant_method":"fp8","weight_block_size":[64,128]})",
       "\"quantization_config.weight_block_size\""},
      {R"({"quant_method":"modelopt","quant_algo":"FP8"})",
       "\"quantization_config.quant_algo\" \"FP8\""},
      {R"({"quant_method":"compressed-tensors","format":"pack-quantized"})",
       "\"quantization_config.format\" \"pack-quantized\""}};
  for (const auto& [config, message] : settings) {
    expect_error(Code::Unsupported, message,
                 [&] { take(fmt::format(R"({{"quantization_config":{}}})", config)); });
  }
  const std::pair<const char*, Code> hostile[] = {
      {R"({"quantization":7})", Code::InvalidArgument},
      {R"({"quantization":{"bits":0}})", Code::InvalidArgument},
      {R"({"quantization":{"bits":7}})", Code::Unsupported},
      {R"({"quantization":{"bits":-4}})", Code::InvalidArgument},
      {R"({"quantization":{"bits":"4"}})", Code::InvalidArgument},
      {R"({"quantization":{"group_size":0}})", Code::InvalidArgument},
      {R"({"quantization":{"group_size":48}})", Code::Unsupported},
      {R"({"quantization":{"group_size":9223372036854775807}})", Code::InvalidArgument},
      {R"({"quantization":{"x.y":{"bits":99}}})", Code::InvalidArgument}};
  for (const auto& [config, code] : hostile) {
    expect_error(code, "quantization", [&] { take(config); });
  }
}

TEST_F(WeightsTest, FormatsWithoutAReaderAreRefused) {
  for (const char* companion : {"weight_scale_inv", "weight_scale", "weight_packed", "qweight"}) {
    const Weights w = open(SafetensorsWriter()
                               .add("q.weight", DType::F8E4M3, {2, 2}, numbers(4))
                               .add(std::string("q.") + companion, DType::F32, {1, 1}, numbers(1)));
    expect_error(Code::Unsupported, companion, [&] { w.at("q").take_matrix(2, 2); });
  }
  const Weights w =
      open(SafetensorsWriter().add("q.weight", DType::I64, {1, 1}, std::string(8, 0)));
  expect_error(Code::Unsupported, "i64", [&] { w.at("q").take_matrix(1, 1); });
}

TEST_F(WeightsTest, LeadingDimensionsCountAsRows) {
  const Weights w = open(SafetensorsWriter().add("e.weight", DType::F32, {2, 3, 4}, numbers(24)));
  const auto m = w.at("e").take_matrix(6, 4);
  EXPECT_EQ(static_cast<const float*>(m->dense_rows(5))[3], 24.0F);
}

TEST(ParallelGroup, Divides) {
  EXPECT_EQ((ParallelGroup{1, 4}.divide(12)), 3);
  expect_error(Code::Unsupported, "10 does not divide into 4",
               [] { (void)ParallelGroup{0, 4}.divide(10); });
}

}  // namespace
}  // namespace mlxcel::io

// Matrices in block floating point against their published definitions, computed apart in
// tools/reference/block_goldens.py, bit for bit (only the sign of a zero may differ).
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "io/checkpoint.h"
#include "testing/paths.h"

namespace mlxcel::io {
namespace {

constexpr int64_t kRows = 12, kCols = 256;

class BlockGolden : public ::testing::Test {
 protected:
  BlockGolden() {
    std::filesystem::copy(testing::data_path("quant/block_float.safetensors"),
                          folder_.file("model.safetensors"));
    folder_.write("config.json", R"({"model_type":"x"})");
    weights_ = open_checkpoint(folder_.path()).weights({});
  }
  std::vector<float> expected(const std::string& matrix) const {
    const Tensor t = weights_.at(matrix).take("values", Shape{kRows, kCols}).to_f32();
    return {t.host<float>().begin(), t.host<float>().end()};
  }
  testing::TempDir folder_;
  Weights weights_;
};

TEST_F(BlockGolden, ValuesAreThoseOfTheDefinitions) {
  for (const char* name : {"mxfp4", "gpt_oss", "packed_mxfp4", "mxfp8", "nvfp4", "modelopt",
                           "packed_nvfp4", "fp8", "bitnet"}) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(weights_.at(name).has_matrix());
    EXPECT_FALSE(weights_.at(name).has_dense_matrix());
    const auto m = weights_.at(name).take_matrix(kRows, kCols);
    const std::vector<float> want = expected(name);
    std::vector<float> got(want.size());
    m->read_f32(0, kRows, got.data());
    EXPECT_EQ(got, want);
    if (m->format().kind != WeightFormat::Kind::Affine) {
      EXPECT_EQ(m->format().dense_type, DType::BF16);
      continue;
    }
    // The affine planes that kernels pack say the same: exactly where no factor was rounded in.
    const auto groups = static_cast<size_t>(kCols / m->format().group);
    std::vector<uint8_t> codes(kCols);
    std::vector<float> scales(groups), biases(groups);
    for (int64_t r = 0; r < kRows; ++r) {
      m->read_affine(r, 1, codes.data(), scales.data(), biases.data());
      for (size_t k = 0; k < codes.size(); ++k) {
        const size_t g = k / m->format().group;
        EXPECT_LT(codes[k], 1 << m->format().bits);
        const double value = double{scales[g]} * codes[k] + double{biases[g]};
        EXPECT_FLOAT_EQ(static_cast<float>(value), want[static_cast<size_t>(r * kCols) + k]);
      }
    }
  }
}

TEST_F(BlockGolden, ShapesThatDoNotFitAreNamed) {
  for (const char* name : {"mxfp4", "gpt_oss", "fp8", "bitnet", "modelopt"}) {
    for (const auto& [rows, cols] :
         {std::pair{kRows, kCols * 2}, {kRows * 2, kCols}, {kCols, kRows}, {kRows, kCols + 32}}) {
      try {
        (void)weights_.at(name).take_matrix(rows, cols);
        ADD_FAILURE() << name << " as " << rows << " x " << cols;
      } catch (const Error& e) {
        EXPECT_TRUE(e.code() == Code::Corrupt || e.code() == Code::Unsupported);
        EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
      }
    }
  }
}

}  // namespace
}  // namespace mlxcel::io

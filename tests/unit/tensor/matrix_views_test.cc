#include "tensor/matrix_views.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "testing/memory_matrix.h"

namespace mlxcel {
namespace {

using testing::MemoryMatrix;

std::vector<float> values(const MatrixSource& m, int64_t begin, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count * m.cols()));
  m.read_f32(begin, count, out.data());
  return out;
}

TEST(MatrixRows, ReadsTheRowsOfTheWhole) {
  const WeightFormat formats[] = {testing::dense_format(DType::BF16),
                                  testing::affine_format(4, 32, DType::F16, false),
                                  testing::k_quant_format(4)};
  for (const WeightFormat& format : formats) {
    const auto whole = std::make_shared<MemoryMatrix>(format, 20, 256, 3);
    for (const int64_t step : {1, 2}) {
      const auto part = matrix_rows(whole, 3, 8, step);
      EXPECT_EQ(part->rows(), 8);
      EXPECT_EQ(part->format(), format);
      const auto got = values(*part, 1, 5);
      for (int64_t r = 0; r < 5; ++r) {
        const auto row = values(*whole, 3 + (1 + r) * step, 1);
        EXPECT_TRUE(std::equal(row.begin(), row.end(), got.begin() + r * 256)) << "row " << r;
      }
      EXPECT_EQ(part->dense_rows(0) != nullptr,
                step == 1 && format.kind == WeightFormat::Kind::Dense);
      if (format.kind != WeightFormat::Kind::Affine) continue;
      const auto groups = static_cast<size_t>(256 / format.group);
      std::vector<uint8_t> codes(512), all_codes(256);
      std::vector<float> scales(2 * groups), biases(scales), all_scales(groups), all_biases(groups);
      part->read_affine(1, 2, codes.data(), scales.data(), biases.data());
      whole->read_affine(3 + 2 * step, 1, all_codes.data(), all_scales.data(), all_biases.data());
      EXPECT_TRUE(std::equal(all_codes.begin(), all_codes.end(), codes.begin() + 256));
      EXPECT_TRUE(std::equal(all_scales.begin(), all_scales.end(),
                             scales.begin() + static_cast<ptrdiff_t>(groups)));
    }
  }
}

TEST(MatrixRows, ReleasesTheRowsItCovers) {
  const auto whole = std::make_shared<MemoryMatrix>(testing::dense_format(DType::F32), 20, 8, 3);
  matrix_rows(whole, 5, 4)->release_rows(1, 2);
  EXPECT_EQ(whole->released(), 2);
  matrix_rows(whole, 10, 4, 2)->release_rows(0, 4);
  EXPECT_EQ(whole->released(), 9);
}

TEST(MatrixRows, RefusesRowsOutside) {
  const auto whole = std::make_shared<MemoryMatrix>(testing::dense_format(DType::F32), 20, 8, 3);
  EXPECT_THROW(matrix_rows(whole, 13, 8), Error);
  EXPECT_THROW(matrix_rows(whole, 2, 10, 2), Error);
  EXPECT_THROW(matrix_rows(whole, -1, 2), Error);
  EXPECT_THROW(matrix_rows(whole, 0, INT64_MAX, 2), Error);
  EXPECT_EQ(matrix_rows(whole, 1, 10, 2)->rows(), 10);
  EXPECT_EQ(matrix_rows(whole, 20, 0)->rows(), 0);
  EXPECT_THROW(values(*matrix_rows(whole, 0, 4), 3, 2), Error);
}

TEST(Transposed, TurnsRowsIntoColumns) {
  for (const WeightFormat& format :
       {testing::dense_format(DType::F16), testing::affine_format(4, 32, DType::F16, false)}) {
    const auto source = std::make_shared<MemoryMatrix>(format, 6, 64, 9);
    const auto turned = transposed(source);
    EXPECT_EQ(turned->rows(), 64);
    EXPECT_EQ(turned->cols(), 6);
    const auto in = values(*source, 0, 6), out = values(*turned, 10, 50);
    for (size_t r = 0; r < 50; ++r) {
      for (size_t k = 0; k < 6; ++k) EXPECT_EQ(out[r * 6 + k], in[k * 64 + r + 10]);
    }
    EXPECT_EQ(turned->format().dense_type,
              format.kind == WeightFormat::Kind::Dense ? DType::F16 : DType::F32);
  }
}

}  // namespace
}  // namespace mlxcel

#include "tensor/matrix_rows.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "testing/memory_matrix.h"

namespace mlxcel::testing {
namespace {

// Rows 4, 5, 0, 7 of eight.
const std::vector<RowRange> kRanges = {{4, 2}, {0, 1}, {7, 1}};
constexpr int64_t kRows[] = {4, 5, 0, 7};

std::vector<float> values(const MatrixSource& m, int64_t row, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count * m.cols()));
  m.read_f32(row, count, out.data());
  return out;
}

TEST(SelectedRows, ReadInTheirNewOrder) {
  for (const WeightFormat& format :
       {dense_format(DType::BF16), affine_format(4, 32, DType::F16, false), k_quant_format(4)}) {
    const auto source = std::make_shared<MemoryMatrix>(format, 8, 256);
    const auto chosen = select_rows(source, kRanges);
    ASSERT_EQ(chosen->rows(), 4);
    EXPECT_EQ(chosen->stored_bytes() * 2, source->stored_bytes());
    for (int64_t r = 0; r < 4; ++r) {
      EXPECT_EQ(values(*chosen, r, 1), values(*source, kRows[r], 1)) << format.str() << " " << r;
    }
    auto middle = values(*source, 5, 1);
    const auto last = values(*source, 0, 1);
    middle.insert(middle.end(), last.begin(), last.end());
    EXPECT_EQ(values(*chosen, 1, 2), middle) << format.str();
  }
}

TEST(SelectedRows, ReadQuantizedFormsAndRelease) {
  const auto source = std::make_shared<MemoryMatrix>(k_quant_format(4), 8, 256);
  const auto chosen = select_rows(source, kRanges);
  std::vector<uint8_t> codes(3 * 256), one(256);
  std::vector<float> scales(3 * 8), biases(3 * 8), scale(8), bias(8);
  chosen->read_affine(1, 3, codes.data(), scales.data(), biases.data());
  source->read_affine(7, 1, one.data(), scale.data(), bias.data());
  EXPECT_TRUE(std::equal(one.begin(), one.end(), codes.begin() + 2 * 256));
  EXPECT_TRUE(std::equal(bias.begin(), bias.end(), biases.begin() + 2 * 8));
  std::vector<uint16_t> supers(4), super_biases(4);
  std::vector<int8_t> subs(4 * 8), sub_biases(4 * 8);
  chosen->read_sub_scales(0, 4,
                          {supers.data(), super_biases.data(), subs.data(), sub_biases.data()});
  uint16_t super = 0, super_bias = 0;
  std::vector<int8_t> sub(8), sub_bias(8);
  source->read_sub_scales(0, 1, {&super, &super_bias, sub.data(), sub_bias.data()});
  EXPECT_EQ(supers[2], super);
  EXPECT_EQ(super_biases[2], super_bias);
  EXPECT_TRUE(std::equal(sub.begin(), sub.end(), subs.begin() + 2 * 8));
  chosen->release_rows(0, 4);
  EXPECT_EQ(source->released(), 4);
}

TEST(SelectedRows, OneRangeStaysWhereItIs) {
  const auto source = std::make_shared<MemoryMatrix>(dense_format(DType::F32), 8, 16);
  EXPECT_EQ(select_rows(source, {{2, 3}})->dense_rows(1), source->dense_rows(3));
  EXPECT_EQ(select_rows(source, kRanges)->dense_rows(0), nullptr);
  EXPECT_THROW((void)select_rows(source, {{7, 2}}), Error);
  EXPECT_THROW((void)select_rows(source, {{-1, 2}}), Error);
}

}  // namespace
}  // namespace mlxcel::testing

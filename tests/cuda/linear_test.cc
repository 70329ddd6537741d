#include "backend/ref/ref.h"
#include "cuda/support.h"
#include "testing/memory_matrix.h"

namespace mlxcel::testing {
namespace {

struct Case {
  WeightFormat format;
  int64_t rows, cols;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DType t : {DType::F32, DType::F16, DType::BF16, DType::F8E4M3}) {
    all.push_back({dense_format(t), 40, 80});
    all.push_back({dense_format(t), 1, 3});
    all.push_back({dense_format(t), 192, 1344});
  }
  for (const int bits : {1, 2, 3, 4, 5, 6, 8}) {
    all.push_back({affine_format(bits, 32, DType::F16, false), 33, 96});
    all.push_back({affine_format(bits, 64, DType::BF16, false), 100, 1280});
    all.push_back({affine_format(bits, 128, DType::F32, false), 17, 256});
    all.push_back({affine_format(bits, 32, DType::F16, true), 129, 576});
    all.push_back({affine_format(bits, 16, DType::F16, true), 16, 48});
  }
  for (const int bits : {2, 3, 4, 5, 6}) all.push_back({k_quant_format(bits), 72, 1024});
  all.push_back({affine_format(4, 64, DType::BF16, false), 1100, 4096});
  return all;
}

std::string name(const Case& c) {
  return c.format.str() + (c.format.symmetric ? " sym " : " ") + std::to_string(c.rows) + "x" +
         std::to_string(c.cols);
}

class GpuLinear : public Gpu {};
INSTANTIATE_TEST_SUITE_P(Types, GpuLinear, ::testing::Values(DType::F32, DType::BF16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST_P(GpuLinear, MatchesTheReference) {
  uint64_t seed = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE(name(c));
    const MemoryMatrix w(c.format, c.rows, c.cols, ++seed);
    const auto packed = ops::pack_matrix(w, kGpu);
    const Tensor bias = random_tensor({c.rows}, seed + 50);
    const Tensor gpu_bias = bias.to(kGpu);
    for (const int64_t m : {1, 7, 16, 40, 150}) {
      const Tensor x = rounded(random_tensor({m, c.cols}, seed + 100));
      std::vector<float> expected(static_cast<size_t>(m * c.rows));
      ref::linear(x.host<float>().data(), m, w, bias.host<float>().data(), expected.data());
      const auto got = values(ops::linear(to_gpu(x), *packed, &gpu_bias));
      // Scales, biases, weights and results rounded to bf16.
      EXPECT_LT(relative_error(got, expected), tolerance(1e-5, 4.0)) << m << " rows";
      const Tensor wide = ops::linear_f32(to_gpu(x), *packed, &gpu_bias);
      EXPECT_EQ(wide.dtype(), DType::F32);
      EXPECT_LT(relative_error(values(wide), expected), tolerance(1e-5, 4.0)) << m << " rows";
    }
  }
}

TEST_P(GpuLinear, RowsKeepTheirBitsInAnyCompany) {
  uint64_t seed = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE(name(c));
    const MemoryMatrix w(c.format, c.rows, c.cols, ++seed);
    const auto packed = ops::pack_matrix(w, kGpu);
    const Tensor x = random_tensor({601, c.cols}, seed + 100);
    const auto whole = values(ops::linear_f32(to_gpu(x), *packed));
    for (const int64_t m : {1, 2, 5, 8, 9, 16, 17, 32, 33, 64, 65, 100, 128, 200, 513}) {
      const auto part = values(ops::linear_f32(to_gpu(x.slice(0, 601 - m, 601)), *packed));
      EXPECT_TRUE(same_bits(part, std::span(whole).last(static_cast<size_t>(m * c.rows))))
          << m << " rows";
    }
  }
}

TEST_P(GpuLinear, GatherReadsTheStoredValues) {
  uint64_t seed = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE(name(c));
    MemoryMatrix w(c.format, c.rows, c.cols, ++seed);
    w.scattered = seed % 2 == 0;
    const auto packed = ops::pack_matrix(w, kGpu);
    std::vector<int32_t> ids;
    for (int64_t r = c.rows - 1; r >= 0; --r) ids.push_back(static_cast<int32_t>(r));
    const Tensor got = ops::gather_rows(*packed, Tensor::of(ids, {c.rows}).to(kGpu));
    const auto all = values(got);
    std::vector<float> expected(static_cast<size_t>(c.cols));
    for (int64_t i = 0; i < c.rows; ++i) {
      w.read_f32(c.rows - 1 - i, 1, expected.data());
      Tensor narrow = Tensor::empty({c.cols}, got.dtype());
      convert_from_f32(got.dtype(), expected.data(), narrow.raw(), c.cols);
      EXPECT_TRUE(same_bits(
          std::span(all).subspan(static_cast<size_t>(i * c.cols), static_cast<size_t>(c.cols)),
          narrow.to_f32().host<float>()))
          << "row " << c.rows - 1 - i;
    }
  }
}

TEST_P(GpuLinear, StackedAndStridedOperands) {
  const WeightFormat format = affine_format(4, 32, DType::F16, false);
  const MemoryMatrix a(format, 40, 64, 1), b(format, 3, 64, 2), c(format, 21, 64, 3);
  const MatrixSource* parts[] = {&a, &b, &c};
  const auto packed = ops::pack_matrices(parts, kGpu);
  const Tensor wide = to_gpu(random_tensor({5, 200}, 3));
  const Tensor x = wide.slice(1, 100, 164);
  const Tensor y = ops::linear(x, *packed);
  EXPECT_TRUE(
      same_bits(values(y), values(ops::linear(ops::copy_columns(wide, 100, 164), *packed))));
  int64_t column = 0;
  for (const MatrixSource* s : parts) {
    const auto alone = values(ops::linear(x, *ops::pack_matrix(*s, kGpu)));
    EXPECT_TRUE(same_bits(values(ops::copy_columns(y, column, column + s->rows())), alone));
    column += s->rows();
  }
  EXPECT_EQ(ops::linear(wide.slice(0, 0, 0).slice(1, 0, 64), *packed).shape(), (Shape{0, 64}));
}

}  // namespace
}  // namespace mlxcel::testing

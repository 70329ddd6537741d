// Products with activations as they are.
#include <gtest/gtest.h>

#include <vector>

#include "backend/ref/ref.h"
#include "base/error.h"
#include "ops/kernel_table.h"
#include "support.h"

namespace mlxcel::testing {
namespace {

// f32 sums of K products of both signs: the error grows with sqrt(K) roundings of the running sum;
// codes without a zero point add the size of the cancelled part.
constexpr double kTolerance = 3e-6;

struct Case {
  WeightFormat format;
  int64_t rows, cols;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const int bits : {1, 2, 3, 4, 5, 6, 8}) {
    for (const int group : {16, 32, 64, 128}) {
      for (const bool symmetric : {false, true}) {
        const DType type = group == 16 ? DType::F32 : group == 64 ? DType::BF16 : DType::F16;
        out.push_back({affine_format(bits, group, type, symmetric), 37, 3 * group});
      }
    }
    out.push_back({affine_format(bits, 32, DType::F16, bits == 8), 80, 576});
  }
  for (const int bits : {2, 3, 4, 5, 6}) {
    out.push_back({k_quant_format(bits), 37, 256});
    out.push_back({k_quant_format(bits), 16, 768});
  }
  for (const DType type : {DType::F32, DType::F16, DType::BF16, DType::F8E4M3}) {
    out.push_back({dense_format(type), 33, 172});
    out.push_back({dense_format(type), 1, 1});
    out.push_back({dense_format(type), 17, 7});
    out.push_back({dense_format(type), 64, 520});
  }
  return out;
}

std::vector<float> run(const MatrixSource& w, const Tensor& x, const Tensor* bias = nullptr) {
  const auto packed = ops::pack_matrix(w, {});
  const Tensor y = ops::linear(x, *packed, bias);
  const auto span = y.host<float>();
  return {span.begin(), span.end()};
}

TEST(Linear, EveryFormatMatchesTheReference) {
  for_each_f32_level([] {
    uint64_t seed = 0;
    for (const Case& c : cases()) {
      SCOPED_TRACE(::testing::Message() << c.format.str() << (c.format.symmetric ? " sym " : " ")
                                        << c.rows << "x" << c.cols);
      const MemoryMatrix w(c.format, c.rows, c.cols, ++seed);
      const Tensor bias = random_tensor({c.rows}, seed + 50);
      for (const int64_t m : {1, 2, 7}) {
        const Tensor x = random_tensor({m, c.cols}, seed + 100);
        std::vector<float> expected(static_cast<size_t>(m * c.rows));
        ref::linear(x.host<float>().data(), m, w, nullptr, expected.data());
        EXPECT_LT(relative_error(run(w, x), expected), kTolerance) << m << " rows";
        ref::linear(x.host<float>().data(), m, w, bias.host<float>().data(), expected.data());
        EXPECT_LT(relative_error(run(w, x, &bias), expected), kTolerance) << m << " rows, bias";
      }
    }
  });
}

TEST(Linear, RowsKeepTheirBitsInAnyCompany) {
  for_each_f32_level([] {
    uint64_t seed = 0;
    for (const Case& c : cases()) {
      SCOPED_TRACE(::testing::Message() << c.format.str() << (c.format.symmetric ? " sym " : " ")
                                        << c.rows << "x" << c.cols);
      const MemoryMatrix w(c.format, c.rows, c.cols, ++seed);
      const auto packed = ops::pack_matrix(w, {});
      const Tensor x = random_tensor({257, c.cols}, seed + 100);
      const Tensor whole = ops::linear(x, *packed);
      for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 16, 64, 200}) {
        const Tensor part = ops::linear(x.slice(0, 257 - m, 257), *packed);
        EXPECT_TRUE(same_bits(part.host<float>(),
                              whole.host<float>().last(static_cast<size_t>(m * c.rows))))
            << m << " rows";
      }
    }
  });
}

TEST(Linear, StackedSourcesAreOneMatrix) {
  for_each_f32_level([] {
    const WeightFormat format = affine_format(4, 32, DType::F16, false);
    const MemoryMatrix a(format, 40, 64, 1), b(format, 3, 64, 2), c(format, 21, 64, 3);
    const MatrixSource* parts[] = {&a, &b, &c};
    const auto packed = ops::pack_matrices(parts, {});
    EXPECT_EQ(packed->rows(), 64);
    EXPECT_EQ(a.released() + b.released() + c.released(), 64);
    const Tensor x = random_tensor({3, 64}, 9);
    const Tensor y = ops::linear(x, *packed);
    int64_t column = 0;
    for (const MatrixSource* s : parts) {
      const auto expected = run(*s, x);
      const Tensor got = ops::copy_columns(y, column, column + s->rows());
      EXPECT_TRUE(same_bits(got.host<float>(), expected));
      column += s->rows();
    }
  });
}

TEST(Linear, GatherReadsTheStoredValues) {
  backend::register_all();
  uint64_t seed = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE(::testing::Message() << c.format.str() << " " << c.rows << "x" << c.cols);
    MemoryMatrix w(c.format, c.rows, c.cols, ++seed);
    w.scattered = seed % 2 == 0;
    const auto packed = ops::pack_matrix(w, {});
    std::vector<int32_t> ids;
    for (int64_t r = c.rows - 1; r >= 0; --r) ids.push_back(static_cast<int32_t>(r));
    const Tensor got = ops::gather_rows(*packed, Tensor::of(ids, {c.rows}));
    std::vector<float> expected(static_cast<size_t>(c.cols));
    for (int64_t i = 0; i < c.rows; ++i) {
      w.read_f32(c.rows - 1 - i, 1, expected.data());
      EXPECT_TRUE(same_bits(
          got.host<float>().subspan(static_cast<size_t>(i * c.cols), static_cast<size_t>(c.cols)),
          expected))
          << "row " << c.rows - 1 - i;
    }
  }
}

TEST(Linear, MemoryIsAboutWhatTheFileHas) {
  backend::register_all();
  for (const int bits : {1, 2, 3, 4, 5, 6, 8}) {
    const MemoryMatrix w(affine_format(bits, 32, DType::F16, false), 64, 256);
    EXPECT_EQ(ops::pack_matrix(w, {})->bytes(), w.stored_bytes()) << bits << " bits";
  }
}

/// The same matrix with its scales multiplied out.
class OneLevel final : public MatrixSource {
 public:
  explicit OneLevel(const MatrixSource& m) : m_(m), format_(m.format()) {
    format_.sub_scale_bits = 0;
  }
  const WeightFormat& format() const override { return format_; }
  int64_t rows() const override { return m_.rows(); }
  int64_t cols() const override { return m_.cols(); }
  const std::string& name() const override { return m_.name(); }
  int64_t stored_bytes() const override { return m_.stored_bytes(); }
  void read_affine(int64_t row, int64_t count, uint8_t* codes, float* scales,
                   float* biases) const override {
    m_.read_affine(row, count, codes, scales, biases);
  }
  void read_f32(int64_t row, int64_t count, float* out) const override {
    m_.read_f32(row, count, out);
  }
  const void* dense_rows(int64_t) const override { return nullptr; }
  void release_rows(int64_t, int64_t) const noexcept override {}

 private:
  const MatrixSource& m_;
  WeightFormat format_;
};

TEST(Linear, ScalesInTwoLevelsGiveTheBitsOfScalesMultipliedOut) {
  for_each_f32_level([] {
    for (const int bits : {2, 3, 4, 5, 6}) {
      SCOPED_TRACE(bits);
      const MemoryMatrix w(k_quant_format(bits), 131, 1024, static_cast<uint64_t>(bits));
      const auto two = ops::pack_matrix(w, {}), one = ops::pack_matrix(OneLevel(w), {});
      EXPECT_LT(two->bytes(), one->bytes());
      for (const int64_t m : {1, 2, 3, 4, 8, 9, 40}) {
        const Tensor x = random_tensor({m, 1024}, 7);
        EXPECT_TRUE(
            same_bits(ops::linear(x, *two).host<float>(), ops::linear(x, *one).host<float>()))
            << m << " rows";
      }
      const Tensor ids = Tensor::of(std::vector<int32_t>{130, 0, 64}, {3});
      EXPECT_TRUE(same_bits(ops::gather_rows(*two, ids).host<float>(),
                            ops::gather_rows(*one, ids).host<float>()));
    }
  });
}

TEST(Linear, KQuantsTakeNoMoreThanAFewPercentAboveTheirFile) {
  backend::register_all();
  constexpr int64_t kFileBytes[] = {84, 110, 144, 176, 210};  // of 256 weights, Q2_K to Q6_K
  for (const int bits : {2, 3, 4, 5, 6}) {
    const MemoryMatrix w(k_quant_format(bits), 64, 512);
    const int64_t file = kFileBytes[bits - 2] * 128;
    EXPECT_EQ(w.stored_bytes(), file) << bits;
    const int64_t packed = ops::pack_matrix(w, {})->bytes();
    EXPECT_GE(packed, file) << bits;
    EXPECT_LE(packed * 100, file * 105) << bits;
  }
}

TEST(Linear, StridedRowsAndNoRows) {
  for_each_f32_level([] {
    const MemoryMatrix w(affine_format(4, 32, DType::F16, false), 20, 64);
    const auto packed = ops::pack_matrix(w, {});
    const Tensor wide = random_tensor({5, 200}, 3);
    const Tensor slice = wide.slice(1, 100, 164);
    const Tensor copy = ops::copy_columns(wide, 100, 164);
    EXPECT_TRUE(same_bits(ops::linear(slice, *packed).host<float>(),
                          ops::linear(copy, *packed).host<float>()));
    const Tensor none = ops::linear(Tensor::empty({0, 64}, DType::F32), *packed);
    EXPECT_EQ(none.shape(), (Shape{0, 20}));
  });
}

TEST(Linear, WrongArgumentsAreNamed) {
  backend::register_all();
  const MemoryMatrix w(affine_format(4, 32, DType::F16, false), 20, 64);
  const auto packed = ops::pack_matrix(w, {});
  EXPECT_THROW(ops::linear(random_tensor({2, 63}, 1), *packed), Error);
  EXPECT_THROW(ops::linear(Tensor::zeros({2, 64}, DType::F16), *packed), Error);
  const std::vector<int32_t> ids = {20};
  EXPECT_THROW(ops::gather_rows(*packed, Tensor::of(ids, {1})), Error);
  MemoryMatrix bad(affine_format(4, 32, DType::F16, false), 4, 64);
  bad.codes()[5] = 16;
  EXPECT_THROW(ops::pack_matrix(bad, {}), Error);
  // Scales in two levels need whole groups of 256 inputs.
  EXPECT_THROW((void)ops::kernel_table().packing_for(k_quant_format(4), 128, {}), Error);
  WeightFormat mxfp4;
  mxfp4.kind = WeightFormat::Kind::Mxfp4;
  try {
    (void)ops::kernel_table().packing_for(mxfp4, 64, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Unsupported);
  }
}

}  // namespace
}  // namespace mlxcel::testing

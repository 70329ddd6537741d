// Products with activations rounded to sixteen bits: against the reference on rounded activations,
// between levels, and in any company.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/ref/ref.h"
#include "base/error.h"
#include "ops/activations.h"
#include "ops/kernel_table.h"
#include "support.h"

namespace mlxcel::testing {
namespace {

// Sums of integers are exact; what is left are the roundings of a few operations for each 16 or 32
// inputs, and the size of what zero points cancel.
constexpr double kTolerance = 3e-6;

struct Case {
  WeightFormat format;
  int64_t rows, cols;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const int bits : {1, 2, 3, 4, 5, 6, 8}) {
    for (const int group : {16, 32, 64, 128}) {
      if (bits == 1 && group == 16) continue;  // no such kernel: a pair spans two groups
      for (const bool symmetric : {false, true}) {
        const DType type = group == 16 ? DType::F32 : group == 64 ? DType::BF16 : DType::F16;
        out.push_back({affine_format(bits, group, type, symmetric), 37, 3 * group});
      }
    }
    out.push_back({affine_format(bits, 32, DType::F16, bits == 8), 80, 2368});
  }
  for (const int bits : {2, 3, 4, 5, 6}) {
    out.push_back({k_quant_format(bits), 37, 256});
    out.push_back({k_quant_format(bits), 16, 768});
  }
  return out;
}

/// Runs `fn` for each level that has integer kernels, with `Int16` in use.
void for_each_int16_level(const std::function<void()>& fn) {
  const ops::Activations before = ops::cpu_activations();
  ops::set_cpu_activations(ops::Activations::Int16);
  for_each_level([&] {
    if (ops::cpu_level() >= ops::Isa::Avx2) fn();
  });
  ops::set_cpu_activations(before);
}

/// x as the kernels see it: q * scale with scale = max |x| / 32767 of 32 inputs.
Tensor rounded(const Tensor& x) {
  const auto in = x.host<float>();
  std::vector<float> out(in.begin(), in.end());
  const int64_t cols = x.dim(1);
  for (int64_t row = 0; row < x.dim(0); ++row) {
    for (int64_t k = 0; k < cols; k += 32) {
      float* p = out.data() + row * cols + k;
      const int64_t n = std::min<int64_t>(32, cols - k);
      float size = 0;
      for (int64_t i = 0; i < n; ++i) size = std::max(size, std::fabs(p[i]));
      for (int64_t i = 0; i < n && size > 0; ++i) {
        p[i] = std::nearbyintf(p[i] * (32767.0F / size)) * (size / 32767.0F);
      }
    }
  }
  return Tensor::of(out, x.shape());
}

TEST(Int16Linear, EveryFormatMatchesTheReferenceOnRoundedActivations) {
  for_each_int16_level([] {
    uint64_t seed = 0;
    for (const Case& c : cases()) {
      SCOPED_TRACE(::testing::Message() << c.format.str() << (c.format.symmetric ? " sym " : " ")
                                        << c.rows << "x" << c.cols);
      const MemoryMatrix w(c.format, c.rows, c.cols, ++seed);
      const auto packed = ops::pack_matrix(w, {});
      const Tensor bias = random_tensor({c.rows}, seed + 50);
      for (const int64_t m : {1, 3, 4, 5, 13}) {
        const Tensor x = random_tensor({m, c.cols}, seed + 100);
        std::vector<float> expected(static_cast<size_t>(m * c.rows));
        ref::linear(rounded(x).host<float>().data(), m, w, bias.host<float>().data(),
                    expected.data());
        EXPECT_LT(relative_error(ops::linear(x, *packed, &bias).host<float>(), expected),
                  kTolerance)
            << m << " rows";
      }
    }
  });
}

TEST(Int16Linear, RoundingLosesLittle) {
  for_each_int16_level([] {
    const MemoryMatrix w(affine_format(4, 32, DType::F16, true), 64, 1024);
    const Tensor x = random_tensor({4, 1024}, 5);
    std::vector<float> expected(4 * 64);
    ref::linear(x.host<float>().data(), 4, w, nullptr, expected.data());
    const Tensor rounded_x = ops::linear(x, *ops::pack_matrix(w, {}));
    EXPECT_LT(relative_error(rounded_x.host<float>(), expected), 3e-5);
    ops::set_cpu_activations(ops::Activations::F32);
    const Tensor exact = ops::linear(x, *ops::pack_matrix(w, {}));
    ops::set_cpu_activations(ops::Activations::Int16);
    EXPECT_FALSE(same_bits(exact.host<float>(), rounded_x.host<float>())) << "nothing was rounded";
  });
}

TEST(Int16Linear, RowsKeepTheirBitsInAnyCompanyAndOnAnyLevel) {
  std::vector<std::vector<float>> first_level;
  for_each_int16_level([&] {
    uint64_t seed = 0;
    for (const Case& c : cases()) {
      SCOPED_TRACE(::testing::Message() << c.format.str() << (c.format.symmetric ? " sym " : " ")
                                        << c.rows << "x" << c.cols);
      const MemoryMatrix w(c.format, c.rows, c.cols, ++seed);
      const auto packed = ops::pack_matrix(w, {});
      const Tensor x = random_tensor({257, c.cols}, seed + 100);
      const Tensor whole = ops::linear(x, *packed);
      for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 64, 200}) {
        const Tensor part = ops::linear(x.slice(0, 257 - m, 257), *packed);
        EXPECT_TRUE(same_bits(part.host<float>(),
                              whole.host<float>().last(static_cast<size_t>(m * c.rows))))
            << m << " rows";
      }
      const auto bits = whole.host<float>();
      if (first_level.size() < seed) {
        first_level.emplace_back(bits.begin(), bits.end());
      } else {
        EXPECT_TRUE(same_bits(bits, first_level[seed - 1])) << "levels differ";
      }
    }
  });
}

TEST(Int16Linear, WideRowsGoSliceBySlice) {
  for_each_int16_level([] {
    const MemoryMatrix w(affine_format(4, 32, DType::F16, true), 40, 9216);
    const auto packed = ops::pack_matrix(w, {});
    const Tensor bias = random_tensor({40}, 3);
    const Tensor x = random_tensor({200, 9216}, 4);
    const Tensor whole = ops::linear(x, *packed, &bias);
    for (const int64_t row : {0, 100, 199}) {
      const Tensor one = ops::linear(x.slice(0, row, row + 1), *packed, &bias);
      EXPECT_TRUE(same_bits(one.host<float>(),
                            whole.host<float>().subspan(static_cast<size_t>(row) * 40, 40)));
    }
  });
}

TEST(Int16Linear, ExtremeInputs) {
  for_each_int16_level([] {
    for (const int bits : {2, 4, 6, 8}) {
      SCOPED_TRACE(bits);
      MemoryMatrix w(affine_format(bits, 32, DType::F32, false), 16, 64);
      // The largest sums: all codes and all inputs at their limits.
      std::fill(w.codes().begin(), w.codes().end(), static_cast<uint16_t>((1 << bits) - 1));
      const auto packed = ops::pack_matrix(w, {});
      for (const float value : {1.0F, -1.0F, 3e38F, 1e-30F, 1e-40F, 0.0F}) {
        const Tensor x = Tensor::of(std::vector<float>(64, value), {1, 64});
        std::vector<float> expected(16);
        // Inputs below 1e-34 count as zero.
        const Tensor seen = std::fabs(value) < 1e-34F ? Tensor::zeros({1, 64}, DType::F32) : x;
        ref::linear(seen.host<float>().data(), 1, w, nullptr, expected.data());
        EXPECT_LT(relative_error(ops::linear(x, *packed).host<float>(), expected), 1e-5) << value;
      }
      for (const float bad : {INFINITY, -INFINITY, NAN}) {
        std::vector<float> values(64, 1.0F);
        values[40] = bad;
        const Tensor y = ops::linear(Tensor::of(values, {1, 64}), *packed);
        for (const float v : y.host<float>()) EXPECT_TRUE(std::isnan(v)) << bad;
      }
    }
  });
}

TEST(Int16Linear, LevelsWithoutKernelsSayIt) {
  backend::register_all();
  const ops::Activations before = ops::cpu_activations();
  const ops::Isa level = ops::cpu_level();
  const MemoryMatrix quantized(affine_format(4, 32, DType::F16, true), 16, 64);
  const MemoryMatrix dense(dense_format(DType::F32), 16, 64);
  ops::set_cpu_level(ops::Isa::Scalar);
  ops::set_cpu_activations(ops::Activations::Int16);
  EXPECT_NO_THROW(ops::pack_matrix(dense, {}));
  try {
    (void)ops::pack_matrix(quantized, {});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Unsupported);
    EXPECT_NE(std::string(e.what()).find("int16 activations"), std::string::npos) << e.what();
  }
  ops::set_cpu_activations(ops::Activations::Auto);
  EXPECT_NO_THROW(ops::pack_matrix(quantized, {}));
  ops::set_cpu_activations(before);
  ops::set_cpu_level(level);
}

}  // namespace
}  // namespace mlxcel::testing

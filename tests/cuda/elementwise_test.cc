#include <algorithm>

#include "backend/ref/ref.h"
#include "cuda/support.h"
#include "ops/op_table.h"

namespace mlxcel::testing {
namespace {

// Around one pack of 4 or 8 elements, one warp, one block, and rows that take several packs a
// thread.
const int64_t kSizes[] = {1, 3, 7, 8, 16, 31, 64, 100, 576, 4096, 5000, 20480};

class GpuElementwise : public Gpu {};
INSTANTIATE_TEST_SUITE_P(Types, GpuElementwise, ::testing::Values(DType::F32, DType::BF16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST_P(GpuElementwise, BinaryOpsMatchTheReference) {
  const ops::OpTable& ref = ref::op_table();
  for (const int64_t n : kSizes) {
    SCOPED_TRACE(n);
    const Tensor a = rounded(random_tensor({5, n}, 1, 6.0F)), b = rounded(random_tensor({5, n}, 2));
    const Tensor ga = to_gpu(a), gb = to_gpu(b);
    std::vector<float> expected(static_cast<size_t>(a.numel()));
    const ops::BinaryArgs args{.a = rows_of(a), .b = rows_of(b), .out = expected.data()};
    ref.add(args);
    EXPECT_LE(relative_error(values(ops::add(ga, gb)), expected), tolerance(0.0));
    ref.mul(args);
    EXPECT_LE(relative_error(values(ops::mul(ga, gb)), expected), tolerance(0.0));
    ref.silu_mul(args);
    EXPECT_LE(relative_error(values(ops::silu_mul(ga, gb)), expected), tolerance(2e-6));
  }
}

TEST_P(GpuElementwise, UnaryOpsMatchTheReference) {
  const ops::OpTable& ref = ref::op_table();
  using ops::Activation;
  for (const int64_t n : kSizes) {
    for (const float size : {1e-3F, 1.0F, 12.0F, 120.0F}) {
      SCOPED_TRACE(::testing::Message() << n << " times " << size);
      const Tensor x = rounded(random_tensor({3, n}, 4, size));
      const Tensor gx = to_gpu(x);
      std::vector<float> expected(static_cast<size_t>(x.numel()));
      ops::UnaryArgs args{.x = rows_of(x), .out = expected.data(), .parameter = 0.37F};
      ref.scale(args);
      EXPECT_LE(relative_error(values(ops::scale(gx, 0.37F)), expected), tolerance(1e-7));
      args.parameter = 30.0F;
      ref.softcap(args);
      EXPECT_LE(relative_error(values(ops::softcap(gx, 30.0F)), expected), tolerance(1e-6));
      for (const auto kind : {Activation::Silu, Activation::Gelu, Activation::GeluTanh,
                              Activation::Relu, Activation::Relu2}) {
        args.kind = kind;
        ref.activate(args);
        EXPECT_LE(relative_error(values(ops::activate(gx, kind)), expected), tolerance(2e-6))
            << static_cast<int>(kind);
      }
    }
  }
}

TEST_P(GpuElementwise, NormsMatchTheReference) {
  for (const int64_t n : kSizes) {
    SCOPED_TRACE(n);
    const Tensor x = rounded(random_tensor({4, n}, 1, 3.0F));
    const Tensor delta = rounded(random_tensor({4, n}, 2));
    const Tensor gain = random_tensor({n}, 3), bias = random_tensor({n}, 4);
    const Tensor ggain = gain.to(kGpu), gbias = bias.to(kGpu);
    std::vector<float> expected(static_cast<size_t>(x.numel()));
    ops::NormArgs args;
    args.x = rows_of(x);
    args.gain = gain.host<float>().data();
    args.out = expected.data();
    args.eps = 1e-5F;
    args.offset = 1.0F;
    ref::rms_norm(args);
    EXPECT_LE(relative_error(values(ops::rms_norm(to_gpu(x), ggain, 1e-5F, 1.0F)), expected),
              tolerance(1e-6));
    // The norm is of the rounded sum, as the GPU stores it.
    const ops::AddNorm both = ops::add_rms_norm(to_gpu(x), to_gpu(delta), ggain, 1e-5F, 1.0F);
    std::vector<float> sum(expected.size());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = x.host<float>()[i] + delta.host<float>()[i];
    const Tensor kept = rounded(Tensor::of(sum, x.shape()));
    EXPECT_TRUE(same_bits(values(both.sum), kept.host<float>()));
    args.x = rows_of(kept);
    ref::rms_norm(args);
    EXPECT_LE(relative_error(values(both.normed), expected), tolerance(1e-6));
    args.x = rows_of(x);
    args.offset = 0;
    args.bias = bias.host<float>().data();
    ref::layer_norm(args);
    EXPECT_LE(relative_error(values(ops::layer_norm(to_gpu(x), ggain, gbias, 1e-5F)), expected),
              tolerance(3e-6));
  }
}

TEST_P(GpuElementwise, RowsOfASliceAndOfHeads) {
  const Tensor wide = to_gpu(random_tensor({6, 10, 24}, 1));
  const Tensor gain = random_tensor({24}, 2).to(kGpu);
  const auto got = values(ops::rms_norm(wide.slice(1, 3, 7), gain, 1e-6F));
  const auto whole = values(ops::rms_norm(wide, gain, 1e-6F));
  for (size_t t = 0; t < 6; ++t) {
    EXPECT_TRUE(
        same_bits(std::span(got).subspan(t * 96, 96), std::span(whole).subspan(t * 240 + 72, 96)));
  }
}

TEST_P(GpuElementwise, RopeIsExactFarOut) {
  const std::vector<int32_t> positions = {0, 1, 7, 1000, 8191, 65535, 131071};
  const int64_t half = 16;
  std::vector<float> frequencies;
  for (int64_t i = 0; i < half; ++i) {
    frequencies.push_back(std::pow(10000.0F, -static_cast<float>(i) / static_cast<float>(half)));
  }
  const Tensor inv_freq = Tensor::of(frequencies, {half}).to(kGpu);
  const Tensor at = Tensor::of(positions, {static_cast<int64_t>(positions.size())}).to(kGpu);
  for (const bool interleaved : {false, true}) {
    const Tensor host = rounded(random_tensor({at.numel(), 3, 40}, 5));
    std::vector<float> expected(host.host<float>().begin(), host.host<float>().end());
    ref::rope({.x = expected.data(),
               .tokens = at.numel(),
               .x_stride = 120,
               .heads = 3,
               .head_dim = 40,
               .positions = positions.data(),
               .inv_freq = frequencies.data(),
               .half = half,
               .interleaved = interleaved,
               .attention_factor = 1.25F});
    Tensor x = to_gpu(host);
    ops::rope(x, at, inv_freq, interleaved, 1.25F);
    EXPECT_LE(relative_error(values(x), expected), tolerance(1e-6));
  }
}

TEST_P(GpuElementwise, TakeAndCopyRows) {
  const Tensor x = rounded(random_tensor({5, 24}, 1));
  const std::vector<int32_t> ids = {4, 0, 4, 5, -1};  // the last two are out of range: zeros
  const auto rows = values(ops::take_rows(to_gpu(x), Tensor::of(ids, {5}).to(kGpu)));
  for (size_t i = 0; i < 5; ++i) {
    std::vector<float> expected(24, 0.0F);
    if (i < 3) {
      const auto row = x.host<float>().subspan(static_cast<size_t>(ids[i]) * 24, 24);
      expected.assign(row.begin(), row.end());
    }
    EXPECT_TRUE(same_bits(std::span(rows).subspan(i * 24, 24), expected)) << i;
  }
  const auto columns = values(ops::copy_columns(to_gpu(x), 3, 12));
  for (size_t t = 0; t < 5; ++t) {
    EXPECT_TRUE(
        same_bits(std::span(columns).subspan(t * 9, 9), x.host<float>().subspan(t * 24 + 3, 9)));
  }
  const Tensor wide = to_gpu(random_tensor({3, 38}, 1, 4.0F));
  EXPECT_TRUE(same_bits(
      values(ops::silu_mul_fused(wide)),
      values(ops::silu_mul(ops::copy_columns(wide, 0, 19), ops::copy_columns(wide, 19, 38)))));
}

TEST_P(GpuElementwise, ArgmaxTakesTheFirstOfTheBest) {
  if (type() != DType::F32) GTEST_SKIP() << "logits are f32";
  constexpr int64_t kRows = 6, kColumns = 70001;
  Tensor x = random_tensor({kRows, kColumns}, 3);
  auto values = x.host_mut<float>();
  values[5] = values[69999] = 2.0F;                      // row 0: equals, the first wins
  values[static_cast<size_t>(2 * kColumns - 1)] = 2.0F;  // row 1: the last column
  values[static_cast<size_t>(2 * kColumns + 9)] = NAN;   // row 2
  for (int64_t i = 0; i < kColumns; ++i) values[static_cast<size_t>(3 * kColumns + i)] = -INFINITY;
  values[static_cast<size_t>(4 * kColumns + 77)] = INFINITY;
  const Tensor best = ops::argmax_rows(x.to(kGpu)).to(Device{});
  const auto got = best.host<int32_t>();
  const auto last = values.last(kColumns);
  const auto expected = static_cast<int32_t>(std::ranges::max_element(last) - last.begin());
  EXPECT_EQ((std::vector<int32_t>{got.begin(), got.end()}),
            (std::vector<int32_t>{5, kColumns - 1, -1, -1, 77, expected}));
}

}  // namespace
}  // namespace mlxcel::testing

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/ref/ref.h"
#include "base/error.h"
#include "ops/op_table.h"
#include "support.h"

namespace mlxcel::testing {
namespace {

// Sizes around one vector of every width, one with a tail, and one that threads share.
const int64_t kSizes[] = {1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 576};

ops::RowView rows_of(const Tensor& t) {
  return {.data = t.host<float>().data(),
          .outer = t.dim(0),
          .inner = 1,
          .outer_stride = t.dim(1),
          .dim = t.dim(1)};
}

// A few units of the last place of f32 against the f64 definition.
constexpr double kTolerance = 5e-7;

using Unary = Tensor (*)(const Tensor&);
void check_unary(const char* name, Unary ours, void (*reference)(const ops::UnaryArgs&),
                 float parameter, ops::Activation kind = ops::Activation::Silu) {
  for (const int64_t n : kSizes) {
    for (const float size : {1e-3F, 1.0F, 12.0F, 120.0F}) {
      SCOPED_TRACE(::testing::Message() << name << " of " << n << " times " << size);
      const Tensor x = random_tensor({3, n}, static_cast<uint64_t>(n), size);
      std::vector<float> expected(static_cast<size_t>(x.numel()));
      ops::UnaryArgs args;
      args.x = rows_of(x);
      args.out = expected.data();
      args.parameter = parameter;
      args.kind = kind;
      reference(args);
      EXPECT_LT(relative_error(ours(x).host<float>(), expected), kTolerance);
    }
  }
}

TEST(Elementwise, UnaryOpsMatchTheReference) {
  const ops::OpTable& ref = ref::op_table();
  for_each_level([&] {
    using ops::Activation;
    check_unary("scale", [](const Tensor& x) { return ops::scale(x, 0.37F); }, ref.scale, 0.37F);
    check_unary(
        "softcap", [](const Tensor& x) { return ops::softcap(x, 30.0F); }, ref.softcap, 30.0F);
    check_unary("clamp", [](const Tensor& x) { return ops::clamp(x, 0.8F); }, ref.clamp, 0.8F);
    check_unary(
        "silu", [](const Tensor& x) { return ops::activate(x, Activation::Silu); }, ref.activate, 0,
        Activation::Silu);
    check_unary(
        "gelu", [](const Tensor& x) { return ops::activate(x, Activation::Gelu); }, ref.activate, 0,
        Activation::Gelu);
    check_unary(
        "gelu_tanh", [](const Tensor& x) { return ops::activate(x, Activation::GeluTanh); },
        ref.activate, 0, Activation::GeluTanh);
    check_unary(
        "relu", [](const Tensor& x) { return ops::activate(x, Activation::Relu); }, ref.activate, 0,
        Activation::Relu);
    check_unary(
        "relu2", [](const Tensor& x) { return ops::activate(x, Activation::Relu2); }, ref.activate,
        0, Activation::Relu2);
    check_unary(
        "tanh", [](const Tensor& x) { return ops::activate(x, Activation::Tanh); }, ref.activate, 0,
        Activation::Tanh);
  });
}

TEST(Elementwise, XieluMatchesTheReference) {
  for_each_level([] {
    for (const int64_t n : kSizes) {
      for (const float size : {1e-7F, 1e-3F, 1.0F, 12.0F, 120.0F}) {
        SCOPED_TRACE(::testing::Message() << n << " times " << size);
        const Tensor x = random_tensor({3, n}, static_cast<uint64_t>(n), size);
        const ops::XieluOptions options{.alpha_p = 0.8F, .alpha_n = 1.3F};
        std::vector<float> expected(static_cast<size_t>(x.numel()));
        ref::op_table().xielu({.x = rows_of(x), .out = expected.data(), .options = options});
        EXPECT_LT(relative_error(ops::xielu(x, options).host<float>(), expected), kTolerance);
      }
    }
  });
}

TEST(Elementwise, PositionFactorsMatchTheReference) {
  for_each_level([] {
    const std::vector<int32_t> positions = {0, 1, 7, 8, 9, 63, 64, 131071};
    std::vector<float> expected(positions.size());
    ref::op_table().position_factors({.positions = positions.data(),
                                      .count = 8,
                                      .period = 8,
                                      .out = expected.data(),
                                      .beta = 0.1F});
    const Tensor got = ops::position_factors(Tensor::of(positions, {8}), 0.1F, 8);
    EXPECT_EQ(got.host<float>()[2], 1.0F);
    EXPECT_LT(relative_error(got.host<float>(), expected), kTolerance);
    EXPECT_THROW(ops::position_factors(Tensor::of(positions, {8}), 0.1F, 0), Error);
  });
}

TEST(Elementwise, BinaryOpsMatchTheReference) {
  const ops::OpTable& ref = ref::op_table();
  for_each_level([&] {
    for (const int64_t n : kSizes) {
      SCOPED_TRACE(n);
      const Tensor a = random_tensor({5, n}, 1, 6.0F);
      const Tensor b = random_tensor({5, n}, 2);
      std::vector<float> expected(static_cast<size_t>(a.numel()));
      const ops::BinaryArgs args{.a = rows_of(a), .b = rows_of(b), .out = expected.data()};
      ref.add(args);
      EXPECT_EQ(relative_error(ops::add(a, b).host<float>(), expected), 0);
      ref.mul(args);
      EXPECT_EQ(relative_error(ops::mul(a, b).host<float>(), expected), 0);
      ref.silu_mul(args);
      EXPECT_LT(relative_error(ops::silu_mul(a, b).host<float>(), expected), kTolerance);
    }
  });
}

TEST(Elementwise, ExtremesStayWhatTheyAre) {
  for_each_level([] {
    const std::vector<float> values = {0.0F, -0.0F, INFINITY, -INFINITY,
                                       NAN,  1e38F, -1e38F,   1e-40F};
    const Tensor x = Tensor::of(values, {1, 8});
    const Tensor y = ops::activate(x, ops::Activation::Silu);
    const auto out = y.host<float>();
    EXPECT_EQ(out[0], 0.0F);
    EXPECT_EQ(out[2], INFINITY);
    EXPECT_TRUE(std::isnan(out[4]));
    EXPECT_FLOAT_EQ(out[5], 1e38F);
    EXPECT_NEAR(out[6], 0.0F, 1e-6);
    const Tensor capped = ops::softcap(x, 5.0F);
    EXPECT_FLOAT_EQ(capped.host<float>()[2], 5.0F);
    EXPECT_FLOAT_EQ(capped.host<float>()[3], -5.0F);
  });
}

TEST(Norms, MatchTheReference) {
  for_each_level([] {
    for (const int64_t n : kSizes) {
      SCOPED_TRACE(n);
      const Tensor x = random_tensor({4, n}, 1, 3.0F);
      const Tensor delta = random_tensor({4, n}, 2);
      const Tensor gain = random_tensor({n}, 3);
      const Tensor bias = random_tensor({n}, 4);
      std::vector<float> expected(static_cast<size_t>(x.numel()));
      std::vector<float> sum(expected.size());
      ops::NormArgs args;
      args.x = rows_of(x);
      args.gain = gain.host<float>().data();
      args.out = expected.data();
      args.eps = 1e-5F;
      args.offset = 1.0F;
      ref::rms_norm(args);
      EXPECT_LT(relative_error(ops::rms_norm(x, gain, 1e-5F, 1.0F).host<float>(), expected), 1e-6);
      args.delta = rows_of(delta);
      args.sum = sum.data();
      ref::rms_norm(args);
      const ops::AddNorm both = ops::add_rms_norm(x, delta, gain, 1e-5F, 1.0F);
      EXPECT_LT(relative_error(both.normed.host<float>(), expected), 1e-6);
      EXPECT_TRUE(same_bits(both.sum.host<float>(), sum));
      args.delta = {};
      args.offset = 0;
      args.bias = bias.host<float>().data();
      ref::layer_norm(args);
      EXPECT_LT(relative_error(ops::layer_norm(x, gain, bias, 1e-5F).host<float>(), expected),
                2e-6);
    }
  });
}

TEST(Norms, RowsOfASliceAndOfHeads) {
  for_each_level([] {
    const Tensor wide = random_tensor({6, 10, 24}, 1);
    const Tensor gain = random_tensor({24}, 2);
    const Tensor slice = wide.slice(1, 3, 7);  // strided tokens of contiguous heads
    const Tensor got = ops::rms_norm(slice, gain, 1e-6F);
    const Tensor whole = ops::rms_norm(wide, gain, 1e-6F);
    for (int64_t t = 0; t < 6; ++t) {
      EXPECT_TRUE(same_bits(got.slice(0, t, t + 1).host<float>(),
                            whole.slice(0, t, t + 1).view({10, 24}).slice(0, 3, 7).host<float>()));
    }
  });
}

TEST(Rope, AnglesAreExactFarOut) {
  for_each_level([] {
    const std::vector<int32_t> positions = {0, 1, 7, 1000, 8191, 65535, 131071};
    const int64_t half = 16;
    std::vector<float> frequencies;
    for (int64_t i = 0; i < half; ++i) {
      frequencies.push_back(std::pow(10000.0F, -static_cast<float>(i) / static_cast<float>(half)));
    }
    const Tensor inv_freq = Tensor::of(frequencies, {half});
    const Tensor at = Tensor::of(positions, {static_cast<int64_t>(positions.size())});
    for (const bool interleaved : {false, true}) {
      Tensor x = random_tensor({at.numel(), 3, 40}, 5);
      std::vector<float> expected(x.host<float>().begin(), x.host<float>().end());
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
      ops::rope(x, at, inv_freq, interleaved, 1.25F);
      const auto got = x.host<float>();
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << i;
    }
  });
}

TEST(Rows, TakeAndCopy) {
  backend::register_all();
  const Tensor x = random_tensor({5, 9}, 1);
  const std::vector<int32_t> ids = {4, 0, 4};
  const Tensor rows = ops::take_rows(x, Tensor::of(ids, {3}));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(same_bits(rows.host<float>().subspan(i * 9, 9),
                          x.host<float>().subspan(static_cast<size_t>(ids[i]) * 9, 9)));
  }
  const Tensor columns = ops::copy_columns(x, 2, 6);
  EXPECT_EQ(columns.shape(), (Shape{5, 4}));
  EXPECT_EQ(columns.host<float>()[5], x.host<float>()[9 + 3]);
  const std::vector<int32_t> bad = {5};
  EXPECT_THROW(ops::take_rows(x, Tensor::of(bad, {1})), Error);
  EXPECT_THROW(ops::copy_columns(x, 3, 10), Error);
}

TEST(Rows, OneRowTimesAll) {
  for_each_level([] {
    const Tensor wide = random_tensor({4, 9, 7}, 1);
    const Tensor x = wide.slice(1, 2, 5);  // [4, 3, 7] at a stride
    const Tensor row = random_tensor({21}, 2);
    const Tensor got = ops::mul_row(x, row);
    for (int64_t t = 0; t < 4; ++t) {
      const Tensor one = x.slice(0, t, t + 1).view({21});
      EXPECT_TRUE(
          same_bits(got.slice(0, t, t + 1).host<float>(), ops::mul(one, row).host<float>()));
    }
    EXPECT_THROW(ops::mul_row(x, random_tensor({20}, 3)), Error);
  });
}

TEST(Rows, FusedGateAndUp) {
  for_each_level([] {
    const Tensor x = random_tensor({3, 38}, 1, 4.0F);
    const Tensor got = ops::silu_mul_fused(x);
    const Tensor expected =
        ops::silu_mul(ops::copy_columns(x, 0, 19), ops::copy_columns(x, 19, 38));
    EXPECT_TRUE(same_bits(got.host<float>(), expected.host<float>()));
  });
}

TEST(Table, EveryOpHasAReferenceAndACpuKernel) {
  backend::register_all();
  backend::register_all();
  const auto all_set = [](const ops::OpTable& t) {
    return t.rms_norm && t.layer_norm && t.add && t.mul && t.silu_mul && t.scale && t.activate &&
           t.softcap && t.clamp && t.xielu && t.position_factors && t.copy_rows && t.take_rows &&
           t.rope && t.kv_append && t.attention;
  };
  EXPECT_TRUE(all_set(ref::op_table()));
  EXPECT_TRUE(all_set(ops::op_table(DeviceKind::Cpu)));
  EXPECT_THROW(ops::set_cpu_level(ops::Isa::Sm90), Error);
}

TEST(Table, AnOpWithoutAKernelIsNamed) {
  ops::PagedKv kv;
  kv.device = {.kind = DeviceKind::Cuda, .index = 0};
  try {
    ops::kv_append(kv, {}, Tensor(), Tensor());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Unsupported);
    EXPECT_EQ(e.message(), "kv_append on cuda");
  }
}

}  // namespace
}  // namespace mlxcel::testing

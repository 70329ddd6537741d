#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "backend/ref/ref.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "ops/expert_table.h"
#include "support.h"

namespace mlxcel::testing {
namespace {

using ops::RouterOptions;
using Score = RouterOptions::Score;

std::vector<int32_t> ids_of(const ops::Routing& r) {
  const auto ids = r.ids.host<int32_t>();
  return {ids.begin(), ids.end()};
}
std::vector<float> weights_of(const ops::Routing& r) {
  const auto weights = r.weights.host<float>();
  return {weights.begin(), weights.end()};
}

Tensor logits(std::vector<float> values) {
  const auto n = static_cast<int64_t>(values.size());
  return Tensor::of(values, {1, n});
}

std::vector<RouterOptions> router_cases() {
  std::vector<RouterOptions> out;
  for (const Score score :
       {Score::Softmax, Score::Sigmoid, Score::ChosenSoftmax, Score::ChosenSigmoid}) {
    out.push_back({.score = score, .top_k = 4});
    out.push_back({.score = score, .top_k = 8, .normalize = true, .norm_eps = 1e-20F});
    out.push_back({.score = score,
                   .top_k = 3,
                   .num_groups = 4,
                   .top_groups = 2,
                   .normalize = true,
                   .norm_floor = 0.9F,
                   .scale = 2.5F});
    out.push_back({.score = score,
                   .top_k = 6,
                   .num_groups = 8,
                   .top_groups = 3,
                   .group_score = RouterOptions::GroupScore::Max,
                   .scale = 16.0F});
  }
  out.push_back({.score = Score::SparseMixer, .top_k = 2, .jitter = 0.1F});
  return out;
}

TEST(Route, MatchesTheReference) {
  backend::register_all();
  const Tensor x = random_tensor({50, 32}, 3, 2.0F);
  const Tensor bias = random_tensor({32}, 4, 0.3F);
  for (const RouterOptions& o : router_cases()) {
    for (const bool biased : {false, true}) {
      if (biased && o.score == Score::SparseMixer) continue;
      SCOPED_TRACE(::testing::Message() << "score " << static_cast<int>(o.score) << " k " << o.top_k
                                        << " groups " << o.num_groups);
      const auto got = ops::route(x, o, biased ? bias : Tensor());
      std::vector<int32_t> ids(static_cast<size_t>(50 * o.top_k));
      std::vector<float> weights(ids.size());
      ops::RouteArgs args{
          .logits = {.data = x.host<float>().data(), .outer = 50, .outer_stride = 32, .dim = 32},
          .options = o};
      if (biased) args.bias = bias.host<float>().data();
      args.ids = ids.data();
      args.weights = weights.data();
      ref::route(args);
      EXPECT_EQ(ids_of(got), ids);
      EXPECT_LT(relative_error(weights_of(got), weights), 1e-6);
    }
  }
}

TEST(Route, EqualScoresTakeTheLowerExpert) {
  backend::register_all();
  const Tensor x = logits({1, 3, 2, 3, 3, 2});
  for (const Score score : {Score::Softmax, Score::Sigmoid, Score::ChosenSoftmax}) {
    EXPECT_EQ(ids_of(ops::route(x, {.score = score, .top_k = 4})),
              (std::vector<int32_t>{1, 3, 4, 2}));
  }
}

// The reference chooses by f32 probabilities: logits a rounding apart whose probabilities are equal
// are a tie there, and so here. Chosen by logit they are not.
TEST(Route, NearTiesGoByTheScoreThatTheReferenceRounds) {
  backend::register_all();
  const float low = 20.0F, high = std::nextafter(20.0F, 30.0F);
  EXPECT_EQ(ids_of(ops::route(logits({low, high, -3}), {.score = Score::Sigmoid, .top_k = 1})),
            std::vector<int32_t>{0});
  EXPECT_EQ(
      ids_of(ops::route(logits({low, high, -3}), {.score = Score::ChosenSigmoid, .top_k = 1})),
      std::vector<int32_t>{1});
  const Tensor small = logits({1e-9F, 2e-9F, -1});
  EXPECT_EQ(ids_of(ops::route(small, {.score = Score::Softmax, .top_k = 1})),
            std::vector<int32_t>{0});
  EXPECT_EQ(ids_of(ops::route(small, {.score = Score::ChosenSoftmax, .top_k = 1})),
            std::vector<int32_t>{1});
}

TEST(Route, TheBiasChoosesButDoesNotWeigh) {
  backend::register_all();
  const Tensor bias = Tensor::of(std::vector<float>{0, 0, 10, 0}, {4});
  const auto r = ops::route(logits({2, 1, 0, -1}), {.score = Score::Sigmoid, .top_k = 2}, bias);
  EXPECT_EQ(ids_of(r), (std::vector<int32_t>{2, 0}));
  EXPECT_FLOAT_EQ(weights_of(r)[0], 0.5F);  // sigmoid(0), not sigmoid(0) + 10
  EXPECT_FLOAT_EQ(weights_of(r)[1], 1.0F / (1.0F + std::exp(-2.0F)));
}

// A group left out stays out even when every biased score in the best groups is negative.
TEST(Route, ClosedGroupsStayClosedBelowZero) {
  backend::register_all();
  const Tensor bias = Tensor::of(std::vector<float>{-5, -5, -6, -6}, {4});
  const auto r = ops::route(logits({0, 1, 9, 9}),
                            {.score = Score::Sigmoid, .top_k = 2, .num_groups = 2}, bias);
  EXPECT_EQ(ids_of(r), (std::vector<int32_t>{1, 0}));
}

TEST(Route, NanLogitsGiveValidIds) {
  backend::register_all();
  const Tensor x = logits({NAN, 1, NAN, NAN});
  for (const RouterOptions& o : router_cases()) {
    if (o.num_groups > 1 || o.top_k > 4) continue;
    for (const int32_t id : ids_of(ops::route(x, o))) {
      EXPECT_GE(id, 0);
      EXPECT_LT(id, 4);
    }
  }
}

TEST(Route, RefusesOptionsThatDoNotFit) {
  backend::register_all();
  const Tensor x = logits({1, 2, 3, 4});
  for (const RouterOptions& o :
       std::vector<RouterOptions>{{.top_k = 0},
                                  {.top_k = 5},
                                  {.top_k = 1, .num_groups = 3},
                                  {.top_k = 3, .num_groups = 2, .top_groups = 1},
                                  {.top_k = 1, .num_groups = 2, .top_groups = 3},
                                  {.top_k = 1, .num_groups = 4, .top_groups = 1},
                                  {.score = Score::SparseMixer, .top_k = 3}}) {
    EXPECT_THROW(ops::route(x, o), Error);
  }
}

struct Experts {
  Experts(const WeightFormat& format, int64_t rows, int64_t cols, int count) {
    for (int e = 0; e < count; ++e) {
      matrices.push_back(
          std::make_unique<MemoryMatrix>(format, rows, cols, 100 + static_cast<uint64_t>(e)));
      plain.push_back(matrices.back().get());
      sources.push_back({matrices.back().get()});
    }
  }
  std::vector<std::unique_ptr<MemoryMatrix>> matrices;
  std::vector<const MatrixSource*> plain;
  std::vector<ops::ExpertSources> sources;
};

std::vector<int32_t> random_ids(int64_t slots, int experts, uint64_t seed) {
  std::vector<int32_t> ids;
  for (const float f : random_floats(slots, seed)) {
    ids.push_back(static_cast<int32_t>((f + 1.0F) * 0.5F * static_cast<float>(experts)) % experts);
  }
  return ids;
}

std::vector<WeightFormat> formats() {
  return {dense_format(DType::F32), dense_format(DType::BF16),
          affine_format(4, 32, DType::F16, false), affine_format(8, 32, DType::F16, true),
          affine_format(3, 64, DType::BF16, false)};
}

TEST(ExpertLinear, MatchesTheReference) {
  for_each_f32_level([] {
    for (const WeightFormat& format : formats()) {
      SCOPED_TRACE(format.str());
      const Experts e(format, 37, 192, 5);
      const auto packed = ops::pack_experts(e.sources, {});
      EXPECT_EQ(packed->num_experts(), 5);
      const Tensor bias = random_tensor({5, 37}, 8);
      for (const int64_t slots : {1, 6, 60}) {
        for (const int64_t per_row : {1, 2}) {
          if (slots % per_row != 0) continue;
          const auto ids = random_ids(slots, 5, static_cast<uint64_t>(slots));
          const Tensor x = random_tensor({slots / per_row, 192}, 9);
          const Tensor y =
              ops::expert_linear(x, *packed, Tensor::of(ids, {slots / per_row, per_row}), bias);
          std::vector<float> expected(static_cast<size_t>(slots * 37));
          ref::expert_linear(x.host<float>().data(), slots, per_row, ids.data(), e.plain,
                             bias.host<float>().data(), expected.data());
          EXPECT_LT(relative_error(y.host<float>(), expected), 3e-6) << slots << " slots";
        }
      }
    }
  });
}

// A row's bits are those of a plain product with its expert, whatever else is routed and whoever
// computes it.
TEST(ExpertLinear, RowsKeepTheirBitsInAnyCompany) {
  for_each_level([] {
    for (const WeightFormat& format : formats()) {
      SCOPED_TRACE(format.str());
      const Experts e(format, 331, 256, 4);
      const auto packed = ops::pack_experts(e.sources, {});
      const auto ids = random_ids(40, 4, 2);
      const Tensor x = random_tensor({40, 256}, 10);
      std::vector<Tensor> alone;
      for (const auto& m : e.matrices) alone.push_back(ops::linear(x, *ops::pack_matrix(*m, {})));
      for (const int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        ThreadPool* before = ThreadPool::replace_shared(&pool);
        const Tensor y = ops::expert_linear(x, *packed, Tensor::of(ids, {40, 1}));
        ThreadPool::replace_shared(before);
        for (int64_t s = 0; s < 40; ++s) {
          const Tensor& full = alone[static_cast<size_t>(ids[static_cast<size_t>(s)])];
          EXPECT_TRUE(
              same_bits(y.slice(0, s, s + 1).host<float>(), full.slice(0, s, s + 1).host<float>()))
              << "slot " << s << ", " << threads << " threads";
        }
      }
    }
  });
}

TEST(ExpertLinear, StackedSourcesAndSharedRows) {
  backend::register_all();
  const WeightFormat format = affine_format(4, 32, DType::F16, false);
  const Experts gate(format, 24, 64, 3), up(format, 24, 64, 3);
  std::vector<ops::ExpertSources> both;
  for (size_t e = 0; e < 3; ++e) both.push_back({gate.plain[e], up.plain[2 - e]});
  const auto packed = ops::pack_experts(both, {});
  EXPECT_EQ(packed->rows(), 48);
  const std::vector<int32_t> ids = {2, 0, 1, 1};
  const Tensor x = random_tensor({2, 64}, 3);
  const Tensor y = ops::expert_linear(x, *packed, Tensor::of(ids, {2, 2}));
  std::vector<float> expected(24);
  ref::expert_linear(x.host<float>().data() + 64, 1, 1, &ids[2], up.plain, nullptr,
                     expected.data());
  EXPECT_LT(relative_error(y.host<float>().subspan(2 * 48 + 24, 24), expected),
            5e-5);  // rounded activations
}

TEST(ExpertLinear, HeadsTakeTheirOwnMatrix) {
  for_each_level([] {
    const Experts e(dense_format(DType::BF16), 24, 40, 3);
    const auto packed = ops::pack_experts(e.sources, {});
    const Tensor wide = random_tensor({5 * 3, 56}, 4);
    const Tensor y = ops::head_linear(wide.view({5, 3, 56}).slice(2, 8, 48), *packed);
    for (int64_t s = 0; s < 15; ++s) {
      const int32_t id = static_cast<int32_t>(s % 3);
      std::vector<float> expected(24);
      ref::expert_linear(wide.host<float>().data() + s * 56 + 8, 1, 1, &id, e.plain, nullptr,
                         expected.data());
      EXPECT_LT(relative_error(y.host<float>().subspan(static_cast<size_t>(s) * 24, 24), expected),
                3e-6);
    }
    EXPECT_THROW(ops::head_linear(random_tensor({5, 2, 40}, 1), *packed), Error);
  });
}

// Sums above the range of f16 stay finite.
TEST(ExpertLinear, LargeActivationsDoNotOverflow) {
  backend::register_all();
  const Experts e(dense_format(DType::F16), 16, 64, 2);
  const auto packed = ops::pack_experts(e.sources, {});
  const std::vector<int32_t> ids = {1};
  const Tensor x = random_tensor({1, 64}, 3, 1e7F);
  const Tensor y = ops::expert_linear(x, *packed, Tensor::of(ids, {1, 1}));
  float largest = 0.0F;
  for (const float v : y.host<float>()) {
    EXPECT_TRUE(std::isfinite(v));
    largest = std::max(largest, std::fabs(v));
  }
  EXPECT_GT(largest, 65504.0F);
}

TEST(ExpertLinear, RefusesShapesThatDoNotFit) {
  backend::register_all();
  const Experts e(dense_format(DType::F32), 4, 8, 2), other(dense_format(DType::F32), 5, 8, 1);
  const auto packed = ops::pack_experts(e.sources, {});
  const Tensor ids = Tensor::of(std::vector<int32_t>{0, 1, 0}, {3, 1});
  EXPECT_THROW(ops::expert_linear(random_tensor({2, 8}, 1), *packed, ids), Error);
  EXPECT_THROW(ops::expert_linear(random_tensor({3, 9}, 1), *packed, ids), Error);
  const Tensor outside = Tensor::of(std::vector<int32_t>{0, 2, 0}, {3, 1});
  EXPECT_THROW(ops::expert_linear(random_tensor({3, 8}, 1), *packed, outside), Error);
  const std::vector<ops::ExpertSources> mixed = {e.sources[0], other.sources[0]};
  EXPECT_THROW(ops::pack_experts(mixed, {}), Error);
  EXPECT_THROW(ops::pack_experts({}, {}), Error);
  EXPECT_EQ(ops::expert_linear(Tensor::empty({0, 8}, DType::F32), *packed,
                               Tensor::empty({0, 1}, DType::I32))
                .dim(0),
            0);
}

TEST(ExpertElementwise, MatchesTheReference) {
  for_each_level([] {
    const ops::OpTable& reference = ref::op_table();
    const Tensor y = random_tensor({12, 83}, 1, 12.0F);
    const Tensor weights = random_tensor({4, 3}, 2);
    std::vector<float> expected(4 * 83);
    const ops::RowView rows{
        .data = y.host<float>().data(), .outer = 12, .outer_stride = 83, .dim = 83};
    reference.combine_experts({.y = rows,
                               .weights = weights.host<float>().data(),
                               .tokens = 4,
                               .choices = 3,
                               .out = expected.data()});
    EXPECT_LT(relative_error(ops::combine_experts(y, weights).host<float>(), expected), 1e-6);

    reference.combine_experts({.y = rows, .tokens = 4, .choices = 3, .out = expected.data()});
    EXPECT_LT(relative_error(ops::sum_slots(y, 3).host<float>(), expected), 1e-6);

    expected.assign(12 * 83, 0.0F);
    reference.sigmoid({.x = rows, .out = expected.data()});
    EXPECT_LT(relative_error(ops::sigmoid(y).host<float>(), expected), 1e-6);

    for (const int64_t per_row : {1, 3}) {
      const Tensor factors = random_tensor({12, per_row}, 5);
      expected.assign(static_cast<size_t>(12 * 83 * per_row), 0.0F);
      reference.scale_rows({.x = rows,
                            .factors = factors.host<float>().data(),
                            .count = 12 * per_row,
                            .per_row = per_row,
                            .out = expected.data()});
      EXPECT_TRUE(same_bits(ops::scale_rows(y, factors).host<float>(), expected));
    }

    const Tensor gate_up = random_tensor({5, 70}, 6, 20.0F);
    expected.assign(5 * 35, 0.0F);
    ops::ClampedSwigluArgs args{
        .gate = {.data = gate_up.host<float>().data(), .outer = 5, .outer_stride = 70, .dim = 35},
        .up = {},
        .alpha = 1.702F,
        .limit = 7.0F,
        .out = expected.data()};
    args.up = args.gate;
    args.up.data += 35;
    reference.clamped_swiglu(args);
    const Tensor fused = ops::clamped_swiglu_fused(gate_up, 1.702F, 7.0F);
    EXPECT_LT(relative_error(fused.host<float>(), expected), 2e-6);
    EXPECT_TRUE(same_bits(ops::clamped_swiglu(ops::copy_columns(gate_up, 0, 35),
                                              ops::copy_columns(gate_up, 35, 70), 1.702F, 7.0F)
                              .host<float>(),
                          fused.host<float>()));
  });
}

}  // namespace
}  // namespace mlxcel::testing

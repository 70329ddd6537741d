// The recurrent ops against their definition, and the same bits for every cut of a sequence, every
// neighbour and every number of threads.
#include "ops/recurrent.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/ref/ref.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "ops/experts.h"
#include "ops/op_table.h"
#include "support.h"

namespace mlxcel::testing {
namespace {

using ops::StateSegment;

/// One operation with fixed weights: how wide its inputs are and how it is called.
struct Case {
  std::string name;
  std::vector<int64_t> widths;  // of the inputs, [T, width]
  std::vector<int64_t> state;   // of one row
  std::function<Tensor(const std::vector<Tensor>& in, const Tensor& positions, Tensor& state,
                       ops::StateSegments segments)>
      run;
  double tolerance = 2e-6;
};

Tensor between(Tensor x, float low, float high) {  // random_tensor is within [-1, 1]
  for (float& v : x.host_mut<float>()) v = low + (high - low) * (v + 1.0F) * 0.5F;
  return x;
}

Tensor decays(const Tensor& x) { return ops::activate(ops::scale(x, 0.2F), ops::Activation::Exp); }

/// Operations at one number of lanes: below, at and above the widths of vectors and blocks.
std::vector<Case> cases(int64_t n) {
  std::vector<Case> out;
  for (const int64_t taps : {2, 3, 4}) {
    for (const int64_t m : {1, 3}) {
      out.push_back({"conv" + std::to_string(taps),
                     {n},
                     {taps - 1, n},
                     [=](const auto& in, const Tensor&, Tensor& state, auto segments) {
                       const Tensor bias = m == 1 ? random_tensor({n}, 2) : Tensor();
                       return ops::causal_conv1d(in[0], random_tensor({taps, m * n}, 1), bias,
                                                 m == 1, state, segments);
                     }});
    }
  }
  out.push_back({"selective",
                 {n, n, 5, 5},
                 {5, n},
                 [=](const auto& in, const Tensor&, Tensor& state, auto segments) {
                   const Tensor dt = ops::softplus(in[1], random_tensor({n}, 4));
                   return ops::selective_scan(in[0], dt, between(random_tensor({5, n}, 1), -3, 0),
                                              in[2], in[3], random_tensor({n}, 3), state, segments);
                 }});
  out.push_back({"ssd",
                 {4 * n, 4, 2 * 6, 2 * 6},
                 {4, 6, n},
                 [=](const auto& in, const Tensor&, Tensor& state, auto segments) {
                   const Tensor dt = ops::softplus(in[1], random_tensor({4}, 4), 0.1F, 1.2F);
                   return ops::ssd_scan(in[0], dt, between(random_tensor({4}, 1), -3, 0), in[2],
                                        in[3], random_tensor({4}, 3), state, segments);
                 }});
  for (const int64_t per : {1, 7}) {
    out.push_back(
        {"delta" + std::to_string(per),
         {2 * 7, 2 * 7, 4 * n, 4 * per, 4},
         {4, 7, n},
         [=](const auto& in, const Tensor&, Tensor& state, auto segments) {
           const Tensor decay = ops::softplus_decay(in[3], random_tensor({4 * per}, 5),
                                                    between(random_tensor({4 * per}, 6), -1, 0));
           const Tensor k = ops::scale(in[1], 0.5F);
           return ops::delta_scan(in[0], k, in[2], decay, ops::sigmoid(in[4]), state, segments);
         }});
  }
  const int64_t wide = 2 * n;
  out.push_back({"rwkv7",
                 {wide, wide, wide, wide, wide},
                 {2, n, n},
                 [=](const auto& in, const Tensor&, Tensor& state, auto segments) {
                   const Tensor w = ops::scale(decays(in[1]), 0.7F);
                   const float size = 1.0F / std::sqrt(static_cast<float>(n));
                   return ops::rwkv7_scan(in[0], w, in[2], in[3], ops::scale(in[4], -size),
                                          ops::scale(in[4], 0.5F * size), state, segments);
                 }});
  out.push_back({"rg_lru",
                 {n, n, n},
                 {n},
                 [=](const auto& in, const Tensor& positions, Tensor& state, auto segments) {
                   return ops::rg_lru_scan(in[0], in[1], in[2],
                                           between(random_tensor({n}, 1), -8, -0.01F), positions,
                                           state, segments);
                 }});
  return out;
}

constexpr int64_t kTokens = 23;

struct Inputs {
  std::vector<Tensor> rows;
  Tensor positions;
};

Inputs inputs_of(const Case& c, uint64_t seed, int64_t first_position) {
  Inputs in;
  for (size_t i = 0; i < c.widths.size(); ++i) {
    // A slice of a wider matrix: rows are strided.
    const Tensor wide = random_tensor({kTokens, c.widths[i] + 3}, seed * 100 + i, 2.0F);
    in.rows.push_back(wide.slice(1, 2, 2 + c.widths[i]));
  }
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < kTokens; ++t) {
    positions.push_back(static_cast<int32_t>(first_position + t));
  }
  in.positions = Tensor::of(positions, {kTokens});
  return in;
}

Tensor state_of(const Case& c, int64_t rows) {
  std::vector<int64_t> dims = {rows};
  dims.insert(dims.end(), c.state.begin(), c.state.end());
  return random_tensor(Shape(dims), 77);
}

/// The f64 definition in place of the CPU kernels, for the duration of one object.
class Definition {
 public:
  Definition() : before_(ops::op_table(DeviceKind::Cpu)) {
    ops::op_table(DeviceKind::Cpu) = ref::op_table();
  }
  ~Definition() { ops::op_table(DeviceKind::Cpu) = before_; }
  Definition(const Definition&) = delete;
  Definition& operator=(const Definition&) = delete;

 private:
  ops::OpTable before_;
};

const int64_t kLanes[] = {1, 5, 8, 16, 31, 64, 71};

TEST(Recurrent, MatchesTheDefinition) {
  for_each_level([] {
    for (const int64_t n : kLanes) {
      for (const Case& c : cases(n)) {
        SCOPED_TRACE(c.name + " of " + std::to_string(n));
        const Inputs in = inputs_of(c, 1, 0);
        const StateSegment segment{0, kTokens, 1};
        Tensor state = state_of(c, 3), expected_state = state_of(c, 3);
        const Tensor out = c.run(in.rows, in.positions, state, {&segment, 1});
        Tensor expected;
        {
          const Definition definition;
          expected = c.run(in.rows, in.positions, expected_state, {&segment, 1});
        }
        EXPECT_LT(relative_error(out.host<float>(), expected.host<float>()), c.tolerance);
        EXPECT_LT(relative_error(state.host<float>(), expected_state.host<float>()), c.tolerance);
      }
    }
  });
}

TEST(Recurrent, CutsAndNeighboursKeepEveryBit) {
  for_each_level([] {
    for (const int64_t n : {5, 71}) {
      for (const Case& c : cases(n)) {
        SCOPED_TRACE(c.name + " of " + std::to_string(n));
        const Inputs in = inputs_of(c, 1, 3);
        const StateSegment all{0, kTokens, 0};
        Tensor whole_state = state_of(c, 2);
        const Tensor whole = c.run(in.rows, in.positions, whole_state, {&all, 1});
        // The same tokens in pieces of 1, 2, 3, ... beside a second sequence that takes the others.
        Tensor state = state_of(c, 2);
        std::vector<float> pieced(static_cast<size_t>(whole.numel()));
        const auto wide = static_cast<size_t>(whole.dim(1));
        int32_t at = 0;
        for (int32_t size = 1; at < kTokens; at += size++) {
          const int32_t q_len = std::min<int32_t>(size, static_cast<int32_t>(kTokens) - at);
          const StateSegment both[] = {{0, at, 1}, {at, q_len, 0}};
          const Tensor out = c.run(in.rows, in.positions, state, both);
          const auto rows = out.host<float>().subspan(static_cast<size_t>(at) * wide,
                                                      static_cast<size_t>(q_len) * wide);
          std::ranges::copy(rows, pieced.begin() + static_cast<ptrdiff_t>(at * wide));
          const auto untouched = out.host<float>().subspan(static_cast<size_t>(at + q_len) * wide);
          EXPECT_TRUE(std::ranges::all_of(untouched, [](float v) { return v == 0.0F; }));
        }
        EXPECT_TRUE(same_bits(pieced, whole.host<float>()));
        EXPECT_TRUE(same_bits(state.slice(0, 0, 1).host<float>(),
                              whole_state.slice(0, 0, 1).host<float>()));
      }
    }
  });
}

TEST(Recurrent, ThreadsKeepEveryBit) {
  for (const Case& c : cases(1024)) {
    if (c.name == "rwkv7") continue;  // its state would be of 8 MB here
    SCOPED_TRACE(c.name);
    const Inputs in = inputs_of(c, 2, 0);
    const StateSegment segments[] = {{0, 20, 1}, {20, 3, 0}};
    std::vector<Tensor> outs, states;
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      ThreadPool* before = ThreadPool::replace_shared(&pool);
      Tensor state = state_of(c, 2);
      outs.push_back(c.run(in.rows, in.positions, state, segments));
      states.push_back(state);
      ThreadPool::replace_shared(before);
    }
    EXPECT_TRUE(same_bits(outs[0].host<float>(), outs[1].host<float>()));
    EXPECT_TRUE(same_bits(states[0].host<float>(), states[1].host<float>()));
  }
}

TEST(Recurrent, ColumnOpsMatchTheDefinition) {
  for_each_level([] {
    for (const int64_t n : kLanes) {
      for (const float size : {1e-3F, 1.0F, 40.0F}) {
        SCOPED_TRACE(::testing::Message() << n << " times " << size);
        const Tensor x = random_tensor({3, 2 * n}, 1, size);
        const Tensor bias = random_tensor({2 * n}, 2), factor = random_tensor({2 * n}, 3);
        const Tensor w = random_tensor({2, n, 7}, 4), b = random_tensor({2, 7}, 5);
        const std::vector<std::function<Tensor()>> all = {
            [&] { return ops::softplus(x, bias); },
            [&] { return ops::softplus(x, {}, 0.2F, 0.8F); },
            [&] { return ops::softplus_decay(x, bias, ops::scale(factor, -0.1F)); },
            [&] { return ops::scale_columns(x, factor, bias); },
            [&] { return ops::block_linear(x, w, b); },
            [&] { return ops::block_linear(x, w, {}); },
            [&] { return ops::join_columns(x.slice(1, n, 2 * n), x); },
            [&] { return ops::head_dot_scale(x, x, x, 2); },
        };
        for (const auto& op : all) {
          const Tensor ours = op();
          const Definition definition;
          EXPECT_LT(relative_error(ours.host<float>(), op().host<float>()), 2e-6);
        }
      }
    }
  });
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  backend::register_all();
  const Tensor x = random_tensor({4, 8}, 1), w = random_tensor({3, 8}, 2);
  Tensor state = Tensor::zeros({2, 2, 8}, DType::F32);
  const StateSegment good{0, 4, 1}, late{2, 3, 0}, far{0, 4, 2};
  EXPECT_NO_THROW(ops::causal_conv1d(x, w, {}, false, state, {&good, 1}));
  EXPECT_THROW(ops::causal_conv1d(x, w, {}, false, state, {&late, 1}), Error);
  EXPECT_THROW(ops::causal_conv1d(x, w, {}, false, state, {&far, 1}), Error);
  Tensor wrong = Tensor::zeros({2, 3, 8}, DType::F32);
  EXPECT_THROW(ops::causal_conv1d(x, w, {}, false, wrong, {&good, 1}), Error);
  EXPECT_THROW(ops::causal_conv1d(x, random_tensor({3, 9}, 2), {}, false, state, {&good, 1}),
               Error);
  EXPECT_THROW(ops::ssd_scan(x, x, w, x, x, w, state, {&good, 1}), Error);
}

}  // namespace
}  // namespace mlxcel::testing

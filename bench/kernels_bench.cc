// Kernels against what the machine can do: matrix products by format, shape and row count, and
// attention over a cache. The ceilings, read bandwidth and multiply-add rate of all threads, are
// measured first by the same program; counters give each kernel's share of them.
//
//   kernels_bench [--benchmark_filter=linear/affine4]
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <map>
#include <numeric>
#include <vector>

#include "backend/ceilings.h"
#include "backend/register.h"
#include "base/thread_pool.h"
#include "ops/isa.h"
#include "ops/ops.h"
#include "testing/memory_matrix.h"

namespace mlxcel {
namespace {

const backend::Ceilings& ceilings() {
  static const backend::Ceilings measured = backend::measure_ceilings();
  return measured;
}

void report(benchmark::State& state, double bytes, double flop) {
  const double n = static_cast<double>(state.iterations());
  using benchmark::Counter;
  state.counters["GB/s"] = Counter(bytes * n / 1e9, Counter::kIsRate);
  state.counters["GFLOP/s"] = Counter(flop * n / 1e9, Counter::kIsRate);
  state.counters["%read"] = Counter(bytes * n / 1e7 / ceilings().read_gb_s, Counter::kIsRate);
  state.counters["%fma"] = Counter(flop * n / 1e7 / ceilings().f32_gflop_s, Counter::kIsRate);
}

// Enough copies of the matrix to stream from memory, as a model's layers do.
void bench_linear(benchmark::State& state, WeightFormat format, int64_t rows, int64_t cols,
                  int64_t m) {
  const testing::MemoryMatrix w(format, rows, cols);
  const int64_t copies = m > 8 ? 1 : std::max<int64_t>(1, (int64_t{160} << 20) / w.stored_bytes());
  std::vector<std::shared_ptr<const ops::PackedMatrix>> packed;
  for (int64_t i = 0; i < copies; ++i) packed.push_back(ops::pack_matrix(w, {}));
  const Tensor x = Tensor::of(testing::random_floats(m * cols, 3), {m, cols});
  size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(ops::linear(x, *packed[next]));
    next = (next + 1) % packed.size();
  }
  report(state, static_cast<double>(packed[0]->bytes()),
         2.0 * static_cast<double>(rows * cols * m));
}

void bench_attention(benchmark::State& state, int32_t heads, int32_t kv_heads, int32_t dim,
                     int32_t q_len, int32_t kv_len) {
  ops::PagedKv kv;
  kv.type = DType::F16;
  kv.kv_heads = kv_heads;
  kv.k_dim = kv.v_dim = dim;
  kv.num_blocks = (kv_len + kv.block_tokens - 1) / kv.block_tokens;
  std::vector<uint16_t> k(static_cast<size_t>(kv.num_blocks) * 32 *
                          static_cast<size_t>(kv_heads * dim)),
      v(k.size());
  kv.k = k.data();
  kv.v = v.data();
  std::vector<int32_t> blocks(static_cast<size_t>(kv.num_blocks));
  std::iota(blocks.begin(), blocks.end(), 0);
  const ops::AttentionSegment fill{
      .row = 0, .q_len = kv_len, .kv_len = kv_len, .blocks = blocks.data()};
  const Shape shape{kv_len, kv_heads, dim};
  const Tensor values = Tensor::of(testing::random_floats(shape.numel(), 1), shape);
  ops::kv_append(kv, {&fill, 1}, values, values);
  const Shape q_shape{q_len, heads, dim};
  const Tensor q = Tensor::of(testing::random_floats(q_shape.numel(), 2), q_shape);
  const ops::AttentionSegment segment{
      .row = 0, .q_len = q_len, .kv_len = kv_len, .blocks = blocks.data()};
  for (auto _ : state) {
    benchmark::DoNotOptimize(ops::attention(q, kv, {&segment, 1}, {.scale = 0.125F}));
  }
  const double seen = kv_len - (q_len - 1) / 2.0;
  report(state, 4.0 * kv_heads * dim * kv_len, 4.0 * heads * dim * seen * q_len);
}

struct NamedFormat {
  const char* name;
  WeightFormat format;
};

void register_benchmarks() {
  using testing::affine_format;
  const NamedFormat formats[] = {
      {"affine4", affine_format(4, 32, DType::F16, false)},      // Q4_1
      {"affine4g64", affine_format(4, 64, DType::BF16, false)},  // MLX
      {"sym4", affine_format(4, 32, DType::F16, true)},          // Q4_0
      {"sym8", affine_format(8, 32, DType::F16, true)},          // Q8_0
      {"sym6", affine_format(6, 16, DType::F32, true)},          // Q6_K
      {"q2_k", testing::k_quant_format(2)},
      {"q3_k", testing::k_quant_format(3)},
      {"q4_k", testing::k_quant_format(4)},
      {"q5_k", testing::k_quant_format(5)},
      {"q6_k", testing::k_quant_format(6)},
      {"affine5", affine_format(5, 32, DType::F16, false)},
      {"affine3", affine_format(3, 64, DType::BF16, false)},
      {"affine2", affine_format(2, 32, DType::F16, false)},
      {"f16", testing::dense_format(DType::F16)},
      {"bf16", testing::dense_format(DType::BF16)},
      {"f32", testing::dense_format(DType::F32)},
  };
  const std::pair<int64_t, int64_t> shapes[] = {{1536, 576}, {8192, 2048}, {4096, 4096}};
  for (const auto& [rows, cols] : shapes) {
    for (const NamedFormat& f : formats) {
      if (f.format.sub_scale_bits > 0 && cols % kSuperGroup != 0) continue;
      for (const int64_t m : {1, 8, 128, 512}) {
        const auto name = fmt::format("linear/{}/{}x{}/m{}", f.name, rows, cols, m);
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) {
          bench_linear(s, f.format, rows, cols, m);
        })->UseRealTime();
      }
    }
  }
  for (const int32_t depth : {128, 1024, 4096, 16384}) {
    benchmark::RegisterBenchmark(
        fmt::format("attention/h9kv3d64/decode/{}", depth).c_str(),
        [=](benchmark::State& s) { bench_attention(s, 9, 3, 64, 1, depth); })
        ->UseRealTime();
    benchmark::RegisterBenchmark(
        fmt::format("attention/h32kv8d128/decode/{}", depth).c_str(),
        [=](benchmark::State& s) { bench_attention(s, 32, 8, 128, 1, depth); })
        ->UseRealTime();
  }
  for (const int32_t length : {512, 2048}) {
    benchmark::RegisterBenchmark(
        fmt::format("attention/h9kv3d64/prefill/{}", length).c_str(),
        [=](benchmark::State& s) { bench_attention(s, 9, 3, 64, length, length); })
        ->UseRealTime();
  }
}

}  // namespace
}  // namespace mlxcel

int main(int argc, char** argv) {
  mlxcel::backend::register_all();
  benchmark::Initialize(&argc, argv);
  fmt::print("isa {}, {} threads; ceilings: read {:.1f} GB/s, multiply-add {:.0f} GFLOP/s\n",
             mlxcel::ops::cpu_isa(), mlxcel::ThreadPool::shared().num_threads(),
             mlxcel::ceilings().read_gb_s, mlxcel::ceilings().f32_gflop_s);
  mlxcel::register_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

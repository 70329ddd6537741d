// Times of GPU kernels inside a recorded graph, with their distance from memory bandwidth:
//
//   gpu_ops_bench [GB/s of the memory, default 4350]
//
// Products read a different copy of their matrix each time, so that nothing comes from the cache.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "backend/register.h"
#include "ops/attention_plan.h"
#include "ops/kernel_table.h"
#include "ops/ops.h"
#include "tensor/device.h"

namespace mlxcel {
namespace {

constexpr Device kGpu{.kind = DeviceKind::Cuda, .index = 0};
using Clock = std::chrono::steady_clock;

// Microseconds of one of the `count` calls that `work` makes.
double time_us(int count, const std::function<void()>& work) {
  DeviceRuntime& gpu = device_runtime(kGpu);
  work();  // kernels prepare themselves
  const auto graph = gpu.record(work);
  graph->launch();
  gpu.synchronize();
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    for (int k = 0; k < 4; ++k) graph->launch();
    gpu.synchronize();
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  return best / 4 / count;
}

Tensor random_activations(std::initializer_list<int64_t> dims) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const Shape shape(dims);
  Tensor wide = Tensor::empty(shape, DType::F32), narrow = Tensor::empty(shape, DType::BF16);
  for (float& v : wide.host_mut<float>()) v = normal(random);
  convert_from_f32(DType::BF16, wide.host<float>().data(), narrow.raw(), wide.numel());
  return narrow.to(kGpu);
}

struct Format {
  const char* name;
  WeightFormat format;
};

void product(const Format& f, int64_t rows, int64_t cols, double gb_per_s) {
  const ops::KernelTable& table = ops::kernel_table();
  const ops::Packing& packing = table.packing_for(f.format, cols, kGpu);
  const int64_t bytes = packing.bytes(f.format, rows, cols);
  const auto copies = static_cast<int>(std::max<int64_t>(2, (int64_t{320} << 20) / bytes));
  std::mt19937_64 random(2);
  std::vector<uint64_t> host(static_cast<size_t>(bytes) / 8 + 1);
  // Small bf16 numbers, whichever part they stand for.
  for (uint64_t& w : host) w = random() & 0x3C7F3C7F3C7F3C7FU;
  std::vector<std::shared_ptr<const ops::PlannedMatrix>> matrices;
  for (int i = 0; i < copies; ++i) {
    auto data = device_runtime(kGpu).allocate(bytes);
    device_runtime(kGpu).upload(data->data(), host.data(), bytes);
    const ops::MatrixView view{.format = f.format,
                               .layout = packing.layout,
                               .rows = rows,
                               .cols = cols,
                               .data = data->data()};
    matrices.push_back(std::make_shared<ops::PlannedMatrix>(
        view, data,
        table.plan(f.format, packing.layout, kGpu, ops::Isa::Sm90, ops::Activations::Auto),
        packing));
  }
  fmt::print("| {} {}x{} |", f.name, rows, cols);
  for (const int64_t m : {1, 8, 16, 64}) {
    const Tensor x = random_activations({m, cols});
    const double us = time_us(copies, [&] {
      for (const auto& w : matrices) ops::linear(x, *w);
    });
    fmt::print(" {:.1f} us {:.0f} % |", us, static_cast<double>(bytes) / us / gb_per_s / 10.0);
  }
  const Tensor x = random_activations({2048, cols});
  const double us = time_us(2, [&] {
    for (int i = 0; i < 2; ++i) ops::linear(x, *matrices[static_cast<size_t>(i)]);
  });
  fmt::print(" {:.0f} us {:.0f} TFLOP/s |\n", us,
             2.0 * 2048 * static_cast<double>(rows) * static_cast<double>(cols) / us / 1e6);
}

void attention(int32_t streams, int32_t length, int32_t q_len) {
  constexpr int32_t kHeads = 32, kKvHeads = 8, kDim = 128, kBlock = 32;
  const int32_t blocks = (length + kBlock - 1) / kBlock;
  ops::PagedKv kv;
  kv.device = kGpu;
  kv.num_blocks = blocks * streams;
  kv.kv_heads = kKvHeads;
  kv.k_dim = kv.v_dim = kDim;
  const Tensor k =
      Tensor::zeros({int64_t{kv.num_blocks} * kKvHeads * kBlock * kDim}, DType::F16, kGpu);
  const Tensor v = Tensor::zeros(k.shape(), DType::F16, kGpu);
  kv.k = const_cast<void*>(k.raw());
  kv.v = const_cast<void*>(v.raw());
  std::vector<std::vector<int32_t>> tables(static_cast<size_t>(streams));
  std::vector<ops::AttentionSegment> segments;
  for (int32_t s = 0; s < streams; ++s) {
    auto& table = tables[static_cast<size_t>(s)];
    for (int32_t b = 0; b < blocks; ++b) table.push_back(b * streams + s);
    segments.push_back(
        {.row = s * q_len, .q_len = q_len, .kv_len = length, .blocks = table.data()});
  }
  std::vector<int32_t> words;
  const auto sizes = ops::write_attention_plan(segments, streams * q_len, kBlock, words);
  const Tensor memory = Tensor::of(words, {std::ssize(words)}).to(kGpu);
  const ops::AttentionPlan plan =
      ops::bind_attention_plan(sizes, static_cast<const int32_t*>(memory.raw()));
  kv.plan = &plan;
  const Tensor q = random_activations({int64_t{streams} * q_len, kHeads, kDim});
  const double us = time_us(10, [&] {
    for (int i = 0; i < 10; ++i) ops::attention(q, kv, segments, {.scale = 0.09F});
  });
  const double bytes = 2.0 * streams * length * kKvHeads * kDim * 2;
  fmt::print("| attention, {} x {} rows, length {} | {:.1f} us | {:.0f} GB/s |\n", streams, q_len,
             length, us, bytes / us / 1e3);
}

void small_ops(int64_t rows) {
  const Tensor x = random_activations({rows, 4096}), y = random_activations({rows, 4096});
  const Tensor wide = random_activations({rows, 28672});
  Tensor heads = random_activations({rows, 40, 128});
  std::vector<float> ones(4096, 1.0F);
  const Tensor gain = Tensor::of(ones, {4096}).to(kGpu);
  const Tensor freqs = Tensor::of(std::span<const float>(ones).first(64), {64}).to(kGpu);
  const Tensor at =
      Tensor::of(std::vector<int32_t>(static_cast<size_t>(rows), 100), {rows}).to(kGpu);
  const Tensor logits = Tensor::zeros({rows, 128256}, DType::F32, kGpu);
  const auto row = [&](const char* name, const std::function<void()>& call) {
    const double us = time_us(20, [&] {
      for (int i = 0; i < 20; ++i) call();
    });
    fmt::print("| {}, {} rows | {:.2f} us |\n", name, rows, us);
  };
  row("add_rms_norm", [&] { ops::add_rms_norm(x, y, gain, 1e-5F); });
  row("silu_mul_fused", [&] { ops::silu_mul_fused(wide); });
  row("rope", [&] { ops::rope(heads, at, freqs, false); });
  row("argmax_rows", [&] { ops::argmax_rows(logits); });
}

}  // namespace
}  // namespace mlxcel

int main(int argc, char** argv) {
  using namespace mlxcel;
  try {
    backend::register_all();
    if (find_device(DeviceKind::Cuda) == nullptr) {
      fmt::print(stderr, "no GPU: {}\n", backend::gpu_unavailable_reason());
      return 1;
    }
    const double gb_per_s = argc > 1 ? std::atof(argv[1]) : 4350;
    WeightFormat q4{.kind = WeightFormat::Kind::Affine, .bits = 4, .group = 64};
    q4.scale_type = DType::BF16;
    WeightFormat q4_0 = q4;
    q4_0.group = 32;
    q4_0.symmetric = true;
    q4_0.scale_type = DType::F16;
    WeightFormat dense;
    dense.dense_type = DType::BF16;
    const Format formats[] = {{"q4 g64", q4}, {"q4_0", q4_0}, {"bf16", dense}};
    fmt::print(
        "| product | 1 row | 8 rows | 16 rows | 64 rows | 2048 rows "
        "|\n|---|---|---|---|---|---|\n");
    for (const Format& f : formats) {
      for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{6144, 4096},
                                       {4096, 4096},
                                       {28672, 4096},
                                       {4096, 14336},
                                       {128256, 4096}}) {
        product(f, rows, cols, gb_per_s);
        std::fflush(stdout);
      }
    }
    for (const int64_t rows : {1, 64}) small_ops(rows);
    for (const int32_t length : {100, 512, 8192, 32768}) attention(1, length, 1);
    attention(64, 512, 1);
    attention(8, 8192, 1);
    attention(1, 2048, 2048);
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpu_ops_bench: {}\n", e.what());
    return 1;
  }
}

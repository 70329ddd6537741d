// mlxcel bench kernels: every candidate kernel of a matrix product with its time and its error.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <vector>

#include "apps/commands.h"
#include "base/error.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "ops/kernel_table.h"
#include "tensor/matrix_source.h"

namespace mlxcel::apps {
namespace {

constexpr int64_t kRows = 2048, kCols = 2048;
constexpr double kSecondsEach = 0.08;

/// A matrix of pseudo-random codes or values.
class SyntheticMatrix final : public MatrixSource {
 public:
  explicit SyntheticMatrix(WeightFormat format) : format_(format) {}
  const WeightFormat& format() const override { return format_; }
  int64_t rows() const override { return kRows; }
  int64_t cols() const override { return kCols; }
  const std::string& name() const override { return name_; }
  int64_t stored_bytes() const override { return kRows * kCols; }
  void read_affine(int64_t row, int64_t count, uint8_t* codes, float* scales,
                   float* biases) const override {
    const int64_t groups = kCols / format_.group;
    for (int64_t i = 0; i < count * kCols; ++i) {
      codes[i] = static_cast<uint8_t>(mix(row * kCols + i) & ((1U << format_.bits) - 1));
    }
    for (int64_t i = 0; i < count * groups; ++i) {
      scales[i] = 1.0F / static_cast<float>(64 + mix(row * groups + i) % 64);
      biases[i] = -scales[i] * static_cast<float>(1 << (format_.bits - 1));
    }
  }
  void read_f32(int64_t row, int64_t count, float* out) const override {
    if (format_.kind == WeightFormat::Kind::Dense) {
      // Halves of small integers: exact in every dense type.
      for (int64_t i = 0; i < count * kCols; ++i) {
        out[i] = static_cast<float>(static_cast<int>(mix(row * kCols + i) % 15) - 7) * 0.5F;
      }
      return;
    }
    std::vector<uint8_t> codes(static_cast<size_t>(count * kCols));
    std::vector<float> scales(codes.size() / format_.group), biases(scales.size());
    read_affine(row, count, codes.data(), scales.data(), biases.data());
    for (size_t i = 0; i < codes.size(); ++i) {
      out[i] = scales[i / format_.group] * static_cast<float>(codes[i]) + biases[i / format_.group];
    }
  }
  const void* dense_rows(int64_t) const override { return nullptr; }
  void release_rows(int64_t, int64_t) const noexcept override {}

 private:
  static uint32_t mix(int64_t i) {
    uint64_t z = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    return static_cast<uint32_t>(z >> 32);
  }
  WeightFormat format_;
  std::string name_ = "synthetic";
};

std::vector<WeightFormat> formats() {
  std::vector<WeightFormat> out;
  for (const int bits : {1, 2, 3, 4, 5, 6, 8}) {
    for (const bool symmetric : {false, true}) {
      WeightFormat f;
      f.kind = WeightFormat::Kind::Affine;
      f.bits = static_cast<uint8_t>(bits);
      f.group = 32;
      f.scale_type = DType::F32;
      f.symmetric = symmetric;
      out.push_back(f);
    }
  }
  for (const DType type : {DType::F32, DType::F16, DType::BF16, DType::F8E4M3}) {
    WeightFormat f;
    f.dense_type = type;
    out.push_back(f);
  }
  return out;
}

/// Products in double precision of `m` rows with the first outputs, for the error.
constexpr int64_t kChecked = 64;
std::vector<double> expected(const SyntheticMatrix& w, const std::vector<float>& x, int64_t m) {
  std::vector<float> row(kCols);
  std::vector<double> out(static_cast<size_t>(m * kChecked));
  for (int64_t o = 0; o < kChecked; ++o) {
    w.read_f32(o, 1, row.data());
    for (int64_t r = 0; r < m; ++r) {
      double s = 0;
      for (int64_t k = 0; k < kCols; ++k) {
        s += double{row[static_cast<size_t>(k)]} * double{x[static_cast<size_t>(r * kCols + k)]};
      }
      out[static_cast<size_t>(r * kChecked + o)] = s;
    }
  }
  return out;
}

struct Outcome {
  double seconds = 1e30, error = 0;
};

Outcome measure(const ops::LinearKernel& kernel, const ops::LinearArgs& args,
                const std::vector<double>& right) {
  using Clock = std::chrono::steady_clock;
  Outcome out;
  const auto start = Clock::now();
  do {
    const auto begin = Clock::now();
    kernel.run(args);
    out.seconds =
        std::min(out.seconds, std::chrono::duration<double>(Clock::now() - begin).count());
  } while (std::chrono::duration<double>(Clock::now() - start).count() < kSecondsEach);
  double largest = 0;
  for (int64_t r = 0; r < args.m; ++r) {
    for (int64_t o = 0; o < kChecked; ++o) {
      const double want = right[static_cast<size_t>(r * kChecked + o)];
      largest = std::max(largest, std::fabs(want));
      out.error = std::max(out.error, std::fabs(double{args.y[r * kRows + o]} - want));
    }
  }
  out.error /= largest;
  return out;
}

}  // namespace

int bench_kernels(const BenchArguments& a) {
  const ops::KernelTable& table = ops::kernel_table();
  Json results = Json::array();
  if (!a.json) {
    fmt::print("{} x {} matrices, {} threads, times are the shortest of {:.0f} ms\n\n", kRows,
               kCols, ThreadPool::shared().num_threads(), kSecondsEach * 1e3);
    fmt::print(
        "| kernel | weights | rows | us | Gop/s | GB/s | error |\n|---|---|---|---|---|---|---|\n");
  }
  for (const WeightFormat& format : formats()) {
    const SyntheticMatrix w(format);
    const ops::Packing& packing = table.packing_for(format, kCols, {});
    const auto data = Buffer::host(packing.bytes(format, kRows, kCols));
    const MatrixSource* one[] = {&w};
    packing.pack(std::span<const MatrixSource* const>(one, 1), data->data());
    for (const int64_t m : {1, 8, 128}) {
      std::vector<float> x(static_cast<size_t>(m * kCols)), y(static_cast<size_t>(m * kRows));
      for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
      const std::vector<double> right = expected(w, x, m);
      for (const ops::LinearKernel& k : table.linear()) {
        if (k.device != DeviceKind::Cpu || k.layout != packing.layout || k.isa > ops::cpu_level() ||
            !k.supports(format) || m < k.min_m || m > k.max_m) {
          continue;
        }
        const Outcome o = measure(k,
                                  {.x = x.data(),
                                   .x_stride = kCols,
                                   .y = y.data(),
                                   .y_stride = kRows,
                                   .m = m,
                                   .bias = nullptr,
                                   .w = {.format = format,
                                         .layout = packing.layout,
                                         .rows = kRows,
                                         .cols = kCols,
                                         .data = data->data()}},
                                  right);
        const double ops_done = 2.0 * static_cast<double>(kRows * kCols * m);
        const double bytes = static_cast<double>(data->size());
        if (a.json) {
          Json row = Json::object();
          row.set("kernel", k.name);
          row.set("weights", format.str());
          row.set("rows", m);
          row.set("seconds", o.seconds);
          row.set("error", o.error);
          results.push_back(std::move(row));
          continue;
        }
        fmt::print("| {} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.1e} |\n", k.name, format.str(),
                   m, o.seconds * 1e6, ops_done / o.seconds / 1e9, bytes / o.seconds / 1e9,
                   o.error);
      }
    }
  }
  if (a.json) fmt::print("{}\n", results.dump(2));
  return 0;
}

}  // namespace mlxcel::apps

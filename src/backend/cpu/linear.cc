// Matrix products on the CPU: prepares x, splits the tiles among threads and calls the inner
// kernels. Work is never split along the inputs.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/linear_kernels.h"
#include "base/thread_pool.h"
#include "ops/kernel_table.h"
#include "tensor/buffer.h"

namespace mlxcel::cpu {
namespace {

using ops::Isa;
using ops::LinearArgs;

constexpr int64_t kPanelCols = 256;  // 16 KiB of unpacked values: half of a first-level cache
constexpr int64_t kRowBlock = 192;   // rows whose panel inputs, 192 KiB, stay in the second level
// Below this much work (multiply-adds) waking the other threads costs more than it saves.
constexpr int64_t kMinParallelWork = 200'000;

const LinearKernels& kernels_of(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::Avx512) return kLinearAvx512;
  if (isa == Isa::Avx2) return kLinearAvx2;
#endif
  (void)isa;
  return kLinearScalar;
}

// x in the form that the kernels of a format read, with the memory behind it.
struct Prepared {
  PreparedX x;
  std::shared_ptr<Buffer> memory;
};

Prepared prepare(const LinearArgs& a, const TileLayout& layout, const LinearKernels& kernels) {
  Prepared out;
  out.x.x = a.x;
  out.x.stride = a.x_stride;
  const bool scaled = layout.affine && layout.bits != 8;
  const bool sums = layout.affine && !layout.symmetric;
  if (!scaled && !sums) return out;
  const int64_t stride = (layout.cols + kTile - 1) / kTile * kTile;
  const int64_t sum_offset = scaled ? a.m * stride : 0;
  out.memory = Buffer::host((sum_offset + (sums ? a.m * layout.groups : 0)) * 4);
  auto* xs = static_cast<float*>(out.memory->data());
  float* group_sums = xs + sum_offset;
  alignas(64) std::array<float, 32> factors{};
  for (int i = 0; scaled && i < 32; ++i) {
    const int in_dword = i % static_cast<int>(layout.dword_cols());
    const int shift = code_shift(layout.low_bits, layout.high_bits, in_dword);
    factors[static_cast<size_t>(i)] = 1.0F / static_cast<float>(int64_t{1} << shift);
  }
  const auto rows = [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* x = a.x + r * a.x_stride;
      if (scaled) kernels.scale_x(x, factors.data(), xs + r * stride, layout.cols);
      for (int64_t g = 0; sums && g < layout.groups; ++g) {
        group_sums[r * layout.groups + g] = kernels.sum(x + g * layout.group, layout.group);
      }
    }
  };
  if (a.m * layout.cols < kMinParallelWork) {
    rows(0, a.m);
  } else {
    ThreadPool::shared().parallel_for(a.m, 1, rows);
  }
  if (scaled) {
    out.x.x = xs;
    out.x.stride = stride;
  }
  if (sums) out.x.sums = group_sums;
  return out;
}

template <class Fn>
void for_ranges(int64_t count, int64_t work_per_item, Fn&& fn) {
  if (count * work_per_item < kMinParallelWork) {
    fn(0, count);
  } else {
    ThreadPool::shared().parallel_for(count, 1, fn);
  }
}

void run_gemv(const LinearKernels& kernels, Codec codec, const LinearArgs& a) {
  const TileLayout layout(a.w.format, a.w.cols);
  const Prepared prepared = prepare(a, layout, kernels);
  for_ranges(TileLayout::tiles(a.w.rows), layout.cols * kTile, [&](int64_t begin, int64_t end) {
    GemvArgs g;
    g.layout = &layout;
    g.data = static_cast<const uint8_t*>(a.w.data);
    g.x = prepared.x;
    g.y = a.y;
    g.rows = a.w.rows;
    g.bias = a.bias;
    g.tiles = {begin, end};
    kernels.gemv[static_cast<int>(codec)](g);
  });
}

// One thread's share of a product of many rows: a block of rows by a range of tiles.
class PanelProduct {
 public:
  PanelProduct(const LinearKernels& kernels, Codec codec, const LinearArgs& args,
               const TileLayout& layout, const PreparedX& x)
      : kernels_(kernels), codec_(static_cast<int>(codec)), a_(args), layout_(layout), x_(x) {
    mode_ = !layout.affine ? 0 : layout.symmetric ? 1 : 2;
  }

  void run(int64_t row_begin, int64_t row_end, TileRange tiles) {
    // With few rows all of x stays in cache, so a tile is read in one go; with many, only the
    // panel's share of x does.
    const int64_t x_bytes = (row_end - row_begin) * layout_.cols * 4;
    const int64_t panels = (layout_.cols + kPanelCols - 1) / kPanelCols;
    if (x_bytes <= 256 * 1024) {
      for (int64_t t = tiles.begin; t < tiles.end; ++t) {
        for (int64_t p = 0; p < panels; ++p) panel(row_begin, row_end, t, p);
      }
    } else {
      for (int64_t p = 0; p < panels; ++p) {
        for (int64_t t = tiles.begin; t < tiles.end; ++t) panel(row_begin, row_end, t, p);
      }
    }
  }

 private:
  void panel(int64_t row_begin, int64_t row_end, int64_t tile, int64_t p) {
    const int64_t begin = p * kPanelCols;
    const int64_t end = std::min(layout_.cols, begin + kPanelCols);
    const int64_t first_group = begin / layout_.group;
    kernels_.unpack[codec_](
        {.layout = &layout_,
         .tile = static_cast<const uint8_t*>(a_.w.data) + tile * layout_.tile_bytes,
         .begin = begin,
         .end = end,
         .values = values_,
         .scales = scales_,
         .biases = biases_});
    MicroArgs m;
    m.values = values_;
    m.scales = scales_;
    m.biases = biases_;
    m.x_stride = x_.stride;
    m.sums_stride = layout_.groups;
    m.cols = end - begin;
    m.group = layout_.group;
    m.sums = sums_;
    const int64_t first_out = tile * kTile;
    const auto outputs = static_cast<size_t>(std::min<int64_t>(kTile, a_.w.rows - first_out));
    for (int64_t r = row_begin; r < row_end; r += kernels_.micro_rows) {
      const int64_t count = std::min<int64_t>(kernels_.micro_rows, row_end - r);
      for (int64_t i = 0; i < count; ++i) {
        float* sums = sums_ + i * kTile;
        const float* y = a_.y + (r + i) * a_.y_stride + first_out;
        if (p > 0) {
          std::copy_n(y, outputs, sums);
          std::fill(sums + outputs, sums + kTile, 0.0F);
        } else {
          std::fill_n(sums, kTile, 0.0F);
        }
      }
      m.x = x_.x + r * x_.stride + begin;
      if (x_.sums != nullptr) m.x_sums = x_.sums + r * layout_.groups + first_group;
      kernels_.micro[mode_][count - 1](m);
      const bool add_bias = a_.bias != nullptr && end == layout_.cols;
      for (int64_t i = 0; i < count; ++i) {
        float* y = a_.y + (r + i) * a_.y_stride + first_out;
        const float* sums = sums_ + i * kTile;
        if (add_bias) {
          for (size_t n = 0; n < outputs; ++n)
            y[n] = sums[n] + a_.bias[first_out + static_cast<int64_t>(n)];
        } else {
          std::copy_n(sums, outputs, y);
        }
      }
    }
  }

  const LinearKernels& kernels_;
  int codec_;
  int mode_;
  const LinearArgs& a_;
  const TileLayout& layout_;
  const PreparedX& x_;
  alignas(64) float values_[kPanelCols * kTile];
  alignas(64) float scales_[kPanelCols / 16 * kTile];
  alignas(64) float biases_[kPanelCols / 16 * kTile];
  alignas(64) float sums_[kMaxMicroRows * kTile];
};

void run_panels(const LinearKernels& kernels, Codec codec, const LinearArgs& a) {
  const TileLayout layout(a.w.format, a.w.cols);
  const Prepared prepared = prepare(a, layout, kernels);
  // Items are (row block, tile) pairs, tiles fastest, so that any number of threads gets equal
  // shares.
  const int64_t tiles = TileLayout::tiles(a.w.rows);
  const int64_t blocks = (a.m + kRowBlock - 1) / kRowBlock;
  const int64_t rows_per_block = (a.m + blocks - 1) / blocks;
  const int64_t work = layout.cols * kTile * std::min(a.m, rows_per_block);
  for_ranges(blocks * tiles, work, [&](int64_t begin, int64_t end) {
    PanelProduct product(kernels, codec, a, layout, prepared.x);
    while (begin < end) {
      const int64_t block = begin / tiles;
      const int64_t stop = std::min(end, (block + 1) * tiles);
      product.run(block * rows_per_block, std::min(a.m, (block + 1) * rows_per_block),
                  {begin - block * tiles, stop - block * tiles});
      begin = stop;
    }
  });
}

template <Isa kIsa, int kCodec>
void gemv_entry(const LinearArgs& a) {
  run_gemv(kernels_of(kIsa), static_cast<Codec>(kCodec), a);
}
template <Isa kIsa, int kCodec>
void panel_entry(const LinearArgs& a) {
  run_panels(kernels_of(kIsa), static_cast<Codec>(kCodec), a);
}
template <int kCodec>
bool reads(const WeightFormat& format) {
  return tile16_supports(format, format.kind == WeightFormat::Kind::Affine ? format.group : 1) &&
         codec_of(format) == static_cast<Codec>(kCodec);
}

constexpr std::array<const char*, kNumCodecs> kCodecNames = {
    "affine1", "affine2", "affine3", "affine4", "affine5", "affine6", "affine8", "sym1", "sym2",
    "sym3",    "sym4",    "sym5",    "sym6",    "sym8",    "f32",     "f16",     "bf16", "f8"};

// Names live as long as the process: table rows hold views of them.
std::string_view keep(std::string name) {
  static auto* names = new std::vector<std::unique_ptr<std::string>>;
  names->push_back(std::make_unique<std::string>(std::move(name)));
  return *names->back();
}

template <Isa kIsa, int kCodec>
void add_codec(ops::KernelTable& table) {
  // Each level rounds in its own way (fused or not), so each is an order of its own.
  const auto order = static_cast<ops::ReductionOrder>(static_cast<int>(kIsa) * 100 + kCodec);
  const std::string suffix = std::string(kCodecNames[kCodec]) + "." + std::string(isa_name(kIsa));
  ops::LinearKernel kernel;
  kernel.isa = kIsa;
  kernel.supports = reads<kCodec>;
  kernel.order = order;
  kernel.rank = static_cast<int>(kIsa) * 10;
  kernel.name = keep("cpu.panel." + suffix);
  kernel.run = panel_entry<kIsa, kCodec>;
  table.add(kernel);
  kernel.name = keep("cpu.gemv." + suffix);
  kernel.rank += 1;
  kernel.max_m = 1;
  kernel.run = gemv_entry<kIsa, kCodec>;
  table.add(kernel);
}

template <Isa kIsa, int... kCodecs>
void add_level(ops::KernelTable& table, std::integer_sequence<int, kCodecs...>) {
  (add_codec<kIsa, kCodecs>(table), ...);
}

}  // namespace

Codec codec_of(const WeightFormat& format) {
  if (format.kind == WeightFormat::Kind::Affine) {
    const int index = format.bits == 8 ? 6 : format.bits - 1;
    return static_cast<Codec>(index + (format.symmetric ? 7 : 0));
  }
  switch (format.dense_type) {
    case DType::F16:
      return Codec::F16;
    case DType::BF16:
      return Codec::BF16;
    case DType::F8E4M3:
      return Codec::F8E4M3;
    default:
      return Codec::F32;
  }
}

void register_linear(ops::KernelTable& table) {
  constexpr auto kCodecs = std::make_integer_sequence<int, kNumCodecs>();
  table.add(tile16_packing());
  add_level<Isa::Scalar>(table, kCodecs);
#if defined(__x86_64__)
  add_level<Isa::Avx2>(table, kCodecs);
  add_level<Isa::Avx512>(table, kCodecs);
#elif defined(__aarch64__)
  add_level<Isa::Neon>(table, kCodecs);
#endif
}

}  // namespace mlxcel::cpu

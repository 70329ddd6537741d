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

constexpr int64_t kMaxGemvRows = 8;  // measured: unpacking a panel pays from nine rows on
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

// x in the form that the kernels of a format read, with the memory behind it. Interleaved: groups
// of `interleave` rows, each [cols][rows of the group].
class Prepared {
 public:
  Prepared(const LinearArgs& a, const TileLayout& layout, const LinearKernels& kernels,
           int64_t interleave)
      : a_(a), layout_(layout), kernels_(kernels), interleave_(interleave) {
    x.x = a.x;
    x.stride = a.x_stride;
    const bool scaled = layout.affine;
    const bool sums = layout.affine && !layout.symmetric;
    const bool copied = scaled || interleave > 1;
    if (!copied && !sums) return;
    factors_.fill(1.0F);
    for (int i = 0; scaled && i < 32; ++i) {
      const int in_dword = i % static_cast<int>(layout.dword_cols());
      const int shift = code_shift(layout.low_bits, layout.high_bits, in_dword);
      factors_[static_cast<size_t>(i)] = 1.0F / static_cast<float>(int64_t{1} << shift);
    }
    const int64_t floats = copied ? a.m * layout.cols : 0;
    memory_ = Buffer::host((floats + (sums ? a.m * layout.groups : 0)) * 4);
    auto* p = static_cast<float*>(memory_->data());
    if (copied) copy_ = p;
    if (sums) sums_ = p + floats;
    const int64_t groups = (a.m + interleave - 1) / interleave;
    if (a.m * layout.cols < kMinParallelWork) {
      fill(0, groups);
    } else {
      ThreadPool::shared().parallel_for(groups, 1,
                                        [&](int64_t begin, int64_t end) { fill(begin, end); });
    }
    if (copied) {
      x.x = copy_;
      x.stride = layout.cols;
    }
    if (sums) x.sums = sums_;
  }
  PreparedX x;

 private:
  void fill(int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const int64_t first = g * interleave_;
      const int64_t rows = std::min(interleave_, a_.m - first);
      const float* in = a_.x + first * a_.x_stride;
      if (copy_ != nullptr && interleave_ > 1) {
        kernels_.interleave(in, a_.x_stride, rows, factors_.data(), copy_ + first * layout_.cols,
                            layout_.cols);
      } else if (copy_ != nullptr) {
        kernels_.scale_x(in, factors_.data(), copy_ + first * layout_.cols, layout_.cols);
      }
      for (int64_t r = 0; sums_ != nullptr && r < rows; ++r) {
        for (int64_t i = 0; i < layout_.groups; ++i) {
          sums_[(first + r) * layout_.groups + i] =
              kernels_.sum(in + r * a_.x_stride + i * layout_.group, layout_.group);
        }
      }
    }
  }

  const LinearArgs& a_;
  const TileLayout& layout_;
  const LinearKernels& kernels_;
  int64_t interleave_;
  alignas(64) std::array<float, 32> factors_{};
  std::shared_ptr<Buffer> memory_;
  float* copy_ = nullptr;
  float* sums_ = nullptr;
};

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
  const Prepared prepared(a, layout, kernels, 1);
  for_ranges(TileLayout::tiles(a.w.rows), layout.cols * kTile * a.m,
             [&](int64_t begin, int64_t end) {
               GemvArgs g;
               g.layout = &layout;
               g.data = static_cast<const uint8_t*>(a.w.data);
               g.x = prepared.x;
               g.m = a.m;
               g.y = a.y;
               g.y_stride = a.y_stride;
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
    m.sums_stride = layout_.groups;
    m.cols = end - begin;
    m.group = layout_.group;
    m.first = p == 0;
    const int64_t first_out = tile * kTile;
    const int64_t outputs = std::min<int64_t>(kTile, a_.w.rows - first_out);
    // A tile that sticks out of y is worked on in a buffer.
    const bool whole = outputs == kTile;
    if (a_.bias != nullptr && end == layout_.cols) {
      std::copy_n(a_.bias + first_out, outputs, bias_);
      m.bias = bias_;
    }
    for (int64_t r = row_begin; r < row_end; r += kernels_.micro_rows) {
      const int64_t count = std::min<int64_t>(kernels_.micro_rows, row_end - r);
      float* y = a_.y + r * a_.y_stride + first_out;
      m.y = whole ? y : edge_;
      m.y_stride = whole ? a_.y_stride : kTile;
      for (int64_t i = 0; !whole && i < count; ++i) {
        std::copy_n(y + i * a_.y_stride, m.first ? 0 : outputs, edge_ + i * kTile);
      }
      m.x = x_.x + r * x_.stride + begin * count;
      if (x_.sums != nullptr) m.x_sums = x_.sums + r * layout_.groups + first_group;
      kernels_.micro[mode_][count - 1](m);
      for (int64_t i = 0; !whole && i < count; ++i) {
        std::copy_n(edge_ + i * kTile, outputs, y + i * a_.y_stride);
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
  alignas(64) float edge_[kMaxMicroRows * kTile] = {};
  alignas(64) float bias_[kTile] = {};
};

void run_panels(const LinearKernels& kernels, Codec codec, const LinearArgs& a) {
  const TileLayout layout(a.w.format, a.w.cols);
  const Prepared prepared(a, layout, kernels, kernels.micro_rows);
  // Items are (row block, tile) pairs, tiles fastest, so that any number of threads gets equal
  // shares.
  const int64_t tiles = TileLayout::tiles(a.w.rows);
  const int64_t blocks = (a.m + kRowBlock - 1) / kRowBlock;
  const int64_t rows_per_block = ((a.m + blocks - 1) / blocks + kernels.micro_rows - 1) /
                                 kernels.micro_rows * kernels.micro_rows;
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
  return tile16_supports(format, format.kind == WeightFormat::Kind::Affine ? kSuperGroup : 1) &&
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
  kernel.max_m = kMaxGemvRows;
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

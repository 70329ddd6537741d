// Products of quantized matrices with activations rounded to sixteen bits: rounds x, splits the
// tiles among threads and calls the inner kernels. Work is never split along the inputs, and the
// kernels add in one order for any number of rows, so a row has the same bits in any company.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/int16_kernels.h"
#include "base/thread_pool.h"
#include "ops/kernel_table.h"
#include "tensor/buffer.h"

namespace mlxcel::cpu {
namespace {

using ops::Isa;
using ops::LinearArgs;

constexpr int64_t kMaxUnpackedRows = 8;      // measured: unpacking a panel pays from nine rows on
constexpr int64_t kRowBlock = 192;           // rows worked on for one reading of the weights
constexpr int64_t kSliceBytes = 256 * 1024;  // of x: half of a second-level cache
// Below this much work (multiply-adds) waking the other threads costs more than it saves.
constexpr int64_t kMinParallelWork = 400'000;

const Int16Kernels& kernels_of(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::Avx512Vnni) return kInt16Vnni;
#endif
  (void)isa;
  return kInt16Avx2;
}

template <class Fn>
void for_ranges(int64_t count, int64_t work_per_item, Fn&& fn) {
  if (count * work_per_item < kMinParallelWork) {
    fn(0, count);
  } else {
    ThreadPool::shared().parallel_for(count, 1, fn);
  }
}

// x rounded, in groups of `rows_at_once` rows.
class RoundedRows {
 public:
  RoundedRows(const LinearArgs& a, const TileLayout& layout, const Int16Kernels& kernels,
              int64_t rows_at_once)
      : rows_at_once_(rows_at_once),
        chunks_((layout.cols + kChunk - 1) / kChunk),
        sub_groups_(layout.group == 16 ? 2 : 1) {
    const bool sums = !layout.symmetric;
    const bool corrections = layout.symmetric;
    const int64_t scalars = a.m * chunks_;
    memory_ = Buffer::host(scalars * (2 * kChunk + 4 + (sums ? 4 : 0) * sub_groups_ +
                                      (corrections ? 4 : 0) * sub_groups_));
    auto* p = static_cast<uint8_t*>(memory_->data());
    const auto take = [&](int64_t bytes) { return std::exchange(p, p + bytes); };
    all_.q = reinterpret_cast<int16_t*>(take(scalars * kChunk * 2));
    all_.scales = reinterpret_cast<float*>(take(scalars * 4));
    if (sums) all_.sums = reinterpret_cast<float*>(take(scalars * sub_groups_ * 4));
    if (corrections) all_.corrections = reinterpret_cast<int32_t*>(take(scalars * sub_groups_ * 4));
    const int64_t groups = (a.m + rows_at_once - 1) / rows_at_once;
    // Rounding an input costs as much as about eight multiply-adds.
    for_ranges(groups, rows_at_once * layout.cols * 8, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) {
        const int64_t first = g * rows_at_once;
        kernels.quantize({.x = a.x + first * a.x_stride,
                          .stride = a.x_stride,
                          .rows = std::min(rows_at_once, a.m - first),
                          .cols = layout.cols,
                          .low_bits = layout.low_bits,
                          .sub_groups = static_cast<int>(sub_groups_),
                          .zero = 1 << (layout.bits - 1),
                          .out = at(first, std::min(rows_at_once, a.m - first), 0)});
      }
    });
  }

  /// The group of `rows` rows that begins with `row`, from a chunk on.
  QuantizedX at(int64_t row, int64_t rows, int64_t chunk) const {
    const int64_t scalars = row * chunks_ + chunk * rows;
    QuantizedX x = all_;
    x.q += scalars * kChunk;
    x.scales += scalars;
    if (x.sums != nullptr) x.sums += scalars * sub_groups_;
    if (x.corrections != nullptr) x.corrections += scalars * sub_groups_;
    return x;
  }
  int64_t chunks() const { return chunks_; }

 private:
  int64_t rows_at_once_, chunks_, sub_groups_;
  std::shared_ptr<Buffer> memory_;
  QuantizedX all_;
};

void run_gemv(const Int16Kernels& kernels, int codec_index, const LinearArgs& a) {
  const TileLayout layout(a.w.format, a.w.cols);
  const Int16Codec& codec = *kernels.codecs[codec_index];
  const int64_t groups = (a.m + kMaxInt16GemvRows - 1) / kMaxInt16GemvRows;
  const int64_t rows_at_once = (a.m + groups - 1) / groups;
  const RoundedRows x(a, layout, kernels, rows_at_once);
  const int sub_index = layout.group == 16 ? 1 : 0;
  for_ranges(TileLayout::tiles(a.w.rows), layout.cols * kTile * a.m,
             [&](int64_t begin, int64_t end) {
               // Each tile is read from memory for the first rows and from a cache for the others.
               const int64_t step = groups > 1 ? 1 : end - begin;
               for (int64_t t = begin; t < end; t += step) {
                 for (int64_t row = 0; row < a.m; row += rows_at_once) {
                   const int64_t rows = std::min(rows_at_once, a.m - row);
                   codec.gemv[sub_index][rows - 1]({.layout = &layout,
                                                    .data = static_cast<const uint8_t*>(a.w.data),
                                                    .x = x.at(row, rows, 0),
                                                    .y = a.y + row * a.y_stride,
                                                    .y_stride = a.y_stride,
                                                    .outputs = a.w.rows,
                                                    .bias = a.bias,
                                                    .tiles = {t, std::min(end, t + step)}});
                 }
               }
             });
}

// One thread's share of a product of many rows: a block of rows by a range of tiles.
class PanelProduct {
 public:
  PanelProduct(const Int16Kernels& kernels, int codec_index, int64_t micro_rows,
               const LinearArgs& args, const TileLayout& layout, const RoundedRows& x)
      : codec_(*kernels.codecs[codec_index]),
        micro_((layout.symmetric ? kernels.symmetric : kernels.affine)
                   .run[layout.group == 16 ? 1 : 0]),
        micro_rows_(micro_rows),
        a_(args),
        layout_(layout),
        x_(x) {}

  void run(int64_t row_begin, int64_t row_end, TileRange tiles) {
    // The rows' inputs of one slice stay in the second-level cache while the tiles pass by.
    const int64_t fitting = kSliceBytes / 2 / (row_end - row_begin) / kInt16Panel * kInt16Panel;
    const int64_t slice = std::max<int64_t>(fitting, 4 * kInt16Panel);
    const int64_t cols = x_.chunks() * kChunk;
    for (int64_t begin = 0; begin < cols; begin += slice) {
      const int64_t end = std::min(cols, begin + slice);
      for (int64_t t = tiles.begin; t < tiles.end; ++t) {
        move_outputs(row_begin, row_end, t, begin > 0, false);
        for (int64_t k = begin; k < end; k += kInt16Panel) {
          panel(row_begin, row_end, t, k, std::min(end, k + kInt16Panel));
        }
        move_outputs(row_begin, row_end, t, false, true);
      }
    }
  }

 private:
  // Between y and sums_. Rows of y are often a power of two apart, which the caches cannot hold.
  void move_outputs(int64_t row_begin, int64_t row_end, int64_t tile, bool in, bool out) {
    const int64_t first = tile * kTile;
    const int64_t count = std::min<int64_t>(kTile, a_.w.rows - first);
    for (int64_t r = row_begin; r < row_end; ++r) {
      float* y = a_.y + r * a_.y_stride + first;
      float* sums = sums_ + (r - row_begin) * kTile;
      if (in) std::copy_n(y, count, sums);
      if (out) std::copy_n(sums, count, y);
    }
  }

  void panel(int64_t row_begin, int64_t row_end, int64_t tile, int64_t begin, int64_t end) {
    codec_.unpack({.layout = &layout_,
                   .tile = static_cast<const uint8_t*>(a_.w.data) + tile * layout_.tile_bytes,
                   .begin = begin,
                   .end = end,
                   .codes = codes_,
                   .scales = scales_,
                   .biases = biases_});
    Int16MicroArgs m;
    m.codes = codes_;
    m.scales = scales_;
    m.biases = biases_;
    m.chunks = (end - begin) / kChunk;
    m.y_stride = kTile;
    m.first = begin == 0;
    if (a_.bias != nullptr && end >= layout_.cols) {
      const int64_t first_out = tile * kTile;
      std::copy_n(a_.bias + first_out, std::min<int64_t>(kTile, a_.w.rows - first_out), bias_);
      m.bias = bias_;
    }
    for (int64_t r = row_begin; r < row_end; r += micro_rows_) {
      const int64_t count = std::min<int64_t>(micro_rows_, row_end - r);
      m.y = sums_ + (r - row_begin) * kTile;
      m.x = x_.at(r, count, begin / kChunk);
      micro_[count - 1](m);
    }
  }

  static constexpr int64_t kScales = kInt16Panel / kChunk * kNumSubGroups * kTile;
  const Int16Codec& codec_;
  void (*const* micro_)(const Int16MicroArgs&);  // by rows - 1
  int64_t micro_rows_;
  const LinearArgs& a_;
  const TileLayout& layout_;
  const RoundedRows& x_;
  alignas(64) uint8_t codes_[kInt16Panel * kTile * 2];
  alignas(64) float scales_[kScales];
  alignas(64) float biases_[kScales];
  alignas(64) float sums_[kRowBlock * kTile];
  alignas(64) float bias_[kTile] = {};
};

void run_panels(const Int16Kernels& kernels, int codec_index, const LinearArgs& a) {
  const TileLayout layout(a.w.format, a.w.cols);
  // Groups of about equal size: 4 + 4 rows are faster than 6 + 2.
  const int64_t groups = (a.m + kernels.micro_rows - 1) / kernels.micro_rows;
  const int64_t micro_rows = (a.m + groups - 1) / groups;
  const RoundedRows x(a, layout, kernels, micro_rows);
  // Items are (row block, tile) pairs, tiles fastest, so that any number of threads gets equal
  // shares.
  const int64_t tiles = TileLayout::tiles(a.w.rows);
  const int64_t blocks = (a.m + kRowBlock - 1) / kRowBlock;
  const int64_t rows_per_block =
      ((a.m + blocks - 1) / blocks + micro_rows - 1) / micro_rows * micro_rows;
  const int64_t work = layout.cols * kTile * std::min(a.m, rows_per_block);
  for_ranges(blocks * tiles, work, [&](int64_t begin, int64_t end) {
    PanelProduct product(kernels, codec_index, micro_rows, a, layout, x);
    while (begin < end) {
      const int64_t block = begin / tiles;
      const int64_t stop = std::min(end, (block + 1) * tiles);
      product.run(std::min(a.m, block * rows_per_block),
                  std::min(a.m, (block + 1) * rows_per_block),
                  {begin - block * tiles, stop - block * tiles});
      begin = stop;
    }
  });
}

template <Isa kIsa, int kCodec>
void gemv_entry(const LinearArgs& a) {
  run_gemv(kernels_of(kIsa), kCodec, a);
}
template <Isa kIsa, int kCodec>
void panel_entry(const LinearArgs& a) {
  run_panels(kernels_of(kIsa), kCodec, a);
}
template <int kCodec>
bool reads(const WeightFormat& format) {
  return format.kind == WeightFormat::Kind::Affine && tile16_supports(format, kSuperGroup) &&
         codec_of(format) == static_cast<Codec>(kCodec) &&
         !(format.bits == 1 && format.group == 16);
}

constexpr std::array<const char*, kNumInt16Codecs> kCodecNames = {
    "affine1", "affine2", "affine3", "affine4", "affine5", "affine6", "affine8",
    "sym1",    "sym2",    "sym3",    "sym4",    "sym5",    "sym6",    "sym8"};

// Names live as long as the process: table rows hold views of them.
std::string_view keep(std::string name) {
  static auto* names = new std::vector<std::unique_ptr<std::string>>;
  names->push_back(std::make_unique<std::string>(std::move(name)));
  return *names->back();
}

template <Isa kIsa, int kCodec>
void add_codec(ops::KernelTable& table) {
  // All levels round alike, so a codec has one order.
  constexpr int kFirstOrder = 10'000;
  const std::string suffix = std::string(kCodecNames[kCodec]) + "." + std::string(isa_name(kIsa));
  ops::LinearKernel kernel;
  kernel.isa = kIsa;
  kernel.supports = reads<kCodec>;
  kernel.order = static_cast<ops::ReductionOrder>(kFirstOrder + kCodec);
  kernel.rounds_activations = true;
  kernel.rank = 1000 + static_cast<int>(kIsa) * 10;
  kernel.name = keep("cpu.int16.panel." + suffix);
  kernel.run = panel_entry<kIsa, kCodec>;
  table.add(kernel);
  kernel.name = keep("cpu.int16.gemv." + suffix);
  kernel.rank += 1;
  kernel.max_m = kMaxUnpackedRows;
  kernel.run = gemv_entry<kIsa, kCodec>;
  table.add(kernel);
}

template <Isa kIsa, int... kCodecs>
void add_level(ops::KernelTable& table, std::integer_sequence<int, kCodecs...>) {
  (add_codec<kIsa, kCodecs>(table), ...);
}

}  // namespace

void register_int16_linear(ops::KernelTable& table) {
#if defined(__x86_64__)
  constexpr auto kCodecs = std::make_integer_sequence<int, kNumInt16Codecs>();
  add_level<Isa::Avx2>(table, kCodecs);
  add_level<Isa::Avx512Vnni>(table, kCodecs);
#else
  (void)table;
#endif
}

}  // namespace mlxcel::cpu

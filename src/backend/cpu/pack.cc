// Packing into layout CpuTile16, and reading rows back for embeddings.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/tile_layout.h"
#include "backend/cpu/vector_kernels.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace mlxcel::cpu {
namespace {

constexpr bool is_one_of(auto value, auto... options) { return ((value == options) || ...); }

int64_t tile16_bytes(const WeightFormat& format, int64_t rows, int64_t cols) {
  const TileLayout layout(format, cols);
  const int64_t tiles = TileLayout::tiles(rows);
  if (layout.tile_bytes > 0 && tiles > (int64_t{1} << 46) / layout.tile_bytes) {
    throw Error(Code::ResourceExhausted, "the matrix is too large to pack");
  }
  return tiles * layout.tile_bytes;
}

// Up to sixteen stacked rows as they are read from their sources.
struct TileRows {
  std::vector<uint8_t> codes;
  std::vector<float> scales, biases, values;
  std::vector<uint16_t> narrow;
  std::vector<uint16_t> super_scales, super_biases;
  std::vector<int8_t> sub_scales, sub_biases;
};

// Writes `scales` [count][groups] of one tile in the layout's type T, lanes from `lane` on.
template <class T>
void put_typed_scales(const TileLayout& layout, const T* scales, int64_t count, int64_t lane,
                      uint8_t* to) {
  for (int64_t g = 0; g < layout.groups; ++g) {
    uint8_t* at = to + g / layout.block_groups * layout.block_bytes +
                  (g % layout.block_groups * kTile + lane) * static_cast<int64_t>(sizeof(T));
    for (int64_t r = 0; r < count; ++r) {
      std::memcpy(at + r * static_cast<int64_t>(sizeof(T)), scales + r * layout.groups + g,
                  sizeof(T));
    }
  }
}

void put_scales(const TileLayout& layout, const std::vector<float>& scales, int64_t count,
                int64_t lane, std::vector<uint16_t>& narrow, uint8_t* to) {
  if (layout.scale_type == DType::F32) {
    put_typed_scales(layout, scales.data(), count, lane, to);
    return;
  }
  narrow.resize(scales.size());
  vector_kernels().narrow(layout.scale_type, scales.data(), narrow.data(), count * layout.groups);
  put_typed_scales(layout, narrow.data(), count, lane, to);
}

// Scales in two levels of rows [begin, begin + count) of a source, lanes from `lane` on.
void put_sub_scales(const TileLayout& layout, const MatrixSource& source, int64_t begin,
                    int64_t count, int64_t lane, TileRows& in, uint8_t* tile) {
  const auto supers = static_cast<size_t>(count * layout.blocks);
  const auto subs = static_cast<size_t>(count * layout.groups);
  for (auto* v : {&in.super_scales, &in.super_biases}) v->resize(supers);
  for (auto* v : {&in.sub_scales, &in.sub_biases}) v->resize(subs);
  source.read_sub_scales(begin, count,
                         {.super_scales = in.super_scales.data(),
                          .super_biases = layout.symmetric ? nullptr : in.super_biases.data(),
                          .sub_scales = in.sub_scales.data(),
                          .sub_biases = layout.symmetric ? nullptr : in.sub_biases.data()});
  const bool nibbles = layout.sub_scale_bits == 4;
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t b = 0; b < layout.blocks; ++b) {
      uint8_t* block = tile + b * layout.block_bytes;
      const auto super = static_cast<size_t>(r * layout.blocks + b);
      std::memcpy(block + layout.scale_offset + (lane + r) * 2, &in.super_scales[super], 2);
      if (!layout.symmetric) {
        std::memcpy(block + layout.bias_offset + (lane + r) * 2, &in.super_biases[super], 2);
      }
      for (int64_t g = 0; g < layout.block_groups; ++g) {
        uint8_t* to = block + layout.sub_offset + g * layout.sub_stride + lane + r;
        const auto sub = static_cast<size_t>(r * layout.groups + b * layout.block_groups + g);
        const auto scale = static_cast<uint8_t>(in.sub_scales[sub]);
        const auto bias = static_cast<uint8_t>(layout.symmetric ? 0 : in.sub_biases[sub]);
        if (nibbles && (scale > 15 || bias > 15)) {
          throw Error(Code::Corrupt, "a sub-scale does not fit its four bits");
        }
        to[0] = static_cast<uint8_t>(nibbles ? scale | bias << 4 : scale);
        if (!nibbles && !layout.symmetric) to[kTile] = bias;
      }
    }
  }
}

uint64_t load8(const uint8_t* p) {
  uint64_t v = 0;
  std::memcpy(&v, p, 8);
  return v;
}

// Eight codes of at most `width` bits, one a byte, joined to fields of `width` bits, the first
// lowest.
template <int kWidth>
uint64_t join(uint64_t bytes) {
  constexpr uint64_t kOne = (uint64_t{1} << kWidth) - 1;
  uint64_t x = bytes & (kOne * 0x0101010101010101U);
  x = (x | x >> (8 - kWidth)) & (((kOne << kWidth) | kOne) * 0x0001000100010001U);
  x = (x | x >> (16 - 2 * kWidth)) & (((uint64_t{1} << (4 * kWidth)) - 1) * 0x0000000100000001U);
  x |= x >> (32 - 4 * kWidth);
  return x & ((uint64_t{1} << (8 * kWidth)) - 1);
}

// Bit planes of one row: `codes` holds whole blocks, padded with zeros.
template <int L, int H>
void put_planes(const TileLayout& layout, const uint8_t* codes, int64_t r, uint8_t* tile) {
  constexpr int64_t kPerDword = 32 / L;
  constexpr int kShare = H > 0 ? L / std::max(H, 1) : 1;
  constexpr uint64_t kHighMask = ((uint64_t{1} << H) - 1) * 0x0101010101010101U;
  for (int64_t b = 0; b < layout.blocks; ++b) {
    uint8_t* block = tile + b * layout.block_bytes;
    const uint8_t* in = codes + b * layout.block_cols;
    uint32_t joined = 0;
    for (int64_t d = 0; d * kPerDword < layout.block_cols; ++d) {
      uint64_t low = 0;
      uint64_t high = 0;
      for (int64_t i = 0; i < kPerDword; i += 8, in += 8) {
        const uint64_t bytes = load8(in);
        low |= join<L>(bytes) << (L * i);
        if (H > 0) high |= join<L>((bytes >> L) & kHighMask) << (L * i);
      }
      const auto dword = static_cast<uint32_t>(low);
      std::memcpy(block + (d * kTile + r) * 4, &dword, 4);
      if constexpr (H == 0) continue;
      const int index = static_cast<int>(d % kShare);
      joined |= static_cast<uint32_t>(high) << (H * index);
      if (index == kShare - 1) {
        std::memcpy(block + layout.high_offset + (d / kShare * kTile + r) * 4, &joined, 4);
        joined = 0;
      }
    }
  }
}

// Codes of eight bits: the one plane is the bytes themselves.
void put_bytes(const TileLayout& layout, const uint8_t* codes, int64_t r, uint8_t* tile) {
  for (int64_t b = 0; b < layout.blocks; ++b, tile += layout.block_bytes) {
    for (int64_t d = 0; d * 4 < layout.block_cols; ++d, codes += 4) {
      std::memcpy(tile + (d * kTile + r) * 4, codes, 4);
    }
  }
}

using PutPlanes = void (*)(const TileLayout&, const uint8_t*, int64_t, uint8_t*);
PutPlanes put_planes_for(int bits) {
  constexpr PutPlanes kByBits[] = {put_planes<1, 0>, put_planes<2, 0>, put_planes<2, 1>,
                                   put_planes<4, 0>, put_planes<4, 1>, put_planes<4, 2>};
  return bits == 8 ? put_bytes : kByBits[bits - 1];
}

// Elements of `count` rows [count][stride], interleaved so that those of one input lie together.
template <class T>
void put_elements(const uint8_t* rows, int64_t stride, int64_t count, int64_t cols, int64_t lane,
                  uint8_t* out) {
  constexpr int64_t kBlock = 64;  // inputs whose outputs stay in the first-level cache
  for (int64_t k0 = 0; k0 < cols; k0 += kBlock) {
    const int64_t n = std::min(kBlock, cols - k0);
    for (int64_t r = 0; r < count; ++r) {
      const uint8_t* in = rows + (r * stride + k0) * static_cast<int64_t>(sizeof(T));
      uint8_t* to = out + (k0 * kTile + lane + r) * static_cast<int64_t>(sizeof(T));
      for (int64_t k = 0; k < n; ++k) {
        T v;
        std::memcpy(&v, in + k * static_cast<int64_t>(sizeof(T)), sizeof(T));
        std::memcpy(to + k * kTile * static_cast<int64_t>(sizeof(T)), &v, sizeof(T));
      }
    }
  }
}

void put_codes(const TileLayout& layout, const TileRows& in, int64_t count, int64_t lane,
               uint8_t* tile) {
  const int64_t stride = layout.blocks * layout.block_cols;
  const PutPlanes put = put_planes_for(layout.bits);
  for (int64_t r = 0; r < count; ++r) put(layout, in.codes.data() + r * stride, lane + r, tile);
}

// Reads codes so that each row fills whole blocks.
void read_codes(const TileLayout& layout, const MatrixSource& source, int64_t begin, int64_t count,
                TileRows& scratch) {
  const int64_t stride = layout.blocks * layout.block_cols;
  scratch.codes.resize(static_cast<size_t>(count * stride) + 8);
  const auto groups = static_cast<size_t>(layout.groups);
  scratch.scales.resize(static_cast<size_t>(count) * groups);
  scratch.biases.resize(static_cast<size_t>(count) * groups);
  source.read_affine(begin, count, scratch.codes.data(), scratch.scales.data(),
                     scratch.biases.data());
  for (int64_t r = count - 1; r >= 0 && stride != layout.cols; --r) {
    uint8_t* to = scratch.codes.data() + r * stride;
    std::memmove(to, scratch.codes.data() + r * layout.cols, static_cast<size_t>(layout.cols));
    std::memset(to + layout.cols, 0, static_cast<size_t>(stride - layout.cols));
  }
  uint64_t seen = 0;
  for (int64_t i = 0; i < count * stride; i += 8) seen |= load8(scratch.codes.data() + i);
  const uint64_t allowed = ((uint64_t{1} << layout.bits) - 1) * 0x0101010101010101U;
  if ((seen & ~allowed) != 0) throw Error(Code::Corrupt, "a code does not fit its number of bits");
}

// Rows [begin, begin + count) of one source go to lanes [lane, lane + count) of a tile.
void put_rows(const TileLayout& layout, const MatrixSource& source, int64_t begin, int64_t count,
              int64_t lane, uint8_t* tile, TileRows& scratch) {
  if (layout.affine) {
    read_codes(layout, source, begin, count, scratch);
    put_codes(layout, scratch, count, lane, tile);
    if (layout.sub_scale_bits > 0) {
      put_sub_scales(layout, source, begin, count, lane, scratch, tile);
      return;
    }
    put_scales(layout, scratch.scales, count, lane, scratch.narrow, tile + layout.scale_offset);
    if (!layout.symmetric) {
      put_scales(layout, scratch.biases, count, lane, scratch.narrow, tile + layout.bias_offset);
    }
    return;
  }
  const DType type = source.format().dense_type;
  const int64_t size = size_of(type);
  for (int64_t r = 0; r < count; ++r) {
    const auto* in = static_cast<const uint8_t*>(source.dense_rows(begin + r));
    if (in == nullptr) {
      // Stored apart: read as f32, which holds every dense type exactly.
      scratch.values.resize(static_cast<size_t>(layout.cols));
      scratch.codes.resize(static_cast<size_t>(layout.cols * size));
      source.read_f32(begin + r, 1, scratch.values.data());
      convert_from_f32(type, scratch.values.data(), scratch.codes.data(), layout.cols);
      in = scratch.codes.data();
    }
    if (size == 1) {
      put_elements<uint8_t>(in, layout.cols, 1, layout.cols, lane + r, tile);
    } else if (size == 2) {
      put_elements<uint16_t>(in, layout.cols, 1, layout.cols, lane + r, tile);
    } else {
      put_elements<uint32_t>(in, layout.cols, 1, layout.cols, lane + r, tile);
    }
  }
}

// Where stacked row `row` lies: source index and row inside it.
struct Place {
  size_t source = 0;
  int64_t row = 0;
};
Place place_of(std::span<const MatrixSource* const> sources, int64_t row) {
  Place p;
  while (row >= sources[p.source]->rows()) row -= sources[p.source++]->rows();
  p.row = row;
  return p;
}

// Drops mapped pages behind a reader, a megabyte at a time: a call per tile would drop less
// than the kernel maps around each fault.
class ReleaseBehind {
 public:
  void read(const MatrixSource& source, int64_t row, int64_t count) {
    if (source_ != &source) {
      flush();
      source_ = &source;
      begin_ = row;
    }
    end_ = row + count;
    if ((end_ - begin_) * source.stored_bytes() >= kPendingBytes * source.rows()) flush();
  }
  void flush() {
    if (source_ != nullptr) source_->release_rows(begin_, end_ - begin_);
    begin_ = end_;
  }

 private:
  static constexpr int64_t kPendingBytes = int64_t{1} << 20;
  const MatrixSource* source_ = nullptr;  // one of the sources being packed
  int64_t begin_ = 0, end_ = 0;
};

void tile16_pack(std::span<const MatrixSource* const> sources, void* out) {
  int64_t rows = 0;
  for (const MatrixSource* s : sources) rows += s->rows();
  const TileLayout layout(sources.front()->format(), sources.front()->cols());
  auto* data = static_cast<uint8_t*>(out);
  ThreadPool::shared().parallel_for(TileLayout::tiles(rows), 4, [&](int64_t begin, int64_t end) {
    TileRows scratch;
    ReleaseBehind behind;
    for (int64_t t = begin; t < end; ++t) {
      uint8_t* tile = data + t * layout.tile_bytes;
      std::memset(tile, 0, static_cast<size_t>(layout.tile_bytes));
      const int64_t last = std::min(rows, (t + 1) * kTile);
      for (int64_t row = t * kTile; row < last;) {
        const Place p = place_of(sources, row);
        const MatrixSource& s = *sources[p.source];
        const int64_t count = std::min(last - row, s.rows() - p.row);
        put_rows(layout, s, p.row, count, row - t * kTile, tile, scratch);
        behind.read(s, p.row, count);
        row += count;
      }
    }
    behind.flush();
  });
  // What one thread released, a neighbour's fault may have mapped again.
  for (const MatrixSource* s : sources) s->release_rows(0, s->rows());
}

// ---- reading back

uint32_t code_at(const TileLayout& layout, const uint8_t* block, int64_t k, int64_t r) {
  const int64_t per_dword = layout.dword_cols();
  const int64_t d = k / per_dword;
  const int64_t i = k % per_dword;
  uint32_t dword = 0;
  std::memcpy(&dword, block + (d * kTile + r) * 4, 4);
  uint32_t code = (dword >> (layout.low_bits * i)) & ((1U << layout.low_bits) - 1);
  if (layout.high_bits > 0) {
    const int64_t share = layout.low_bits / layout.high_bits;
    std::memcpy(&dword, block + layout.high_offset + (d / share * kTile + r) * 4, 4);
    const auto shift = layout.low_bits * i + layout.high_bits * (d % share);
    code |= ((dword >> shift) & ((1U << layout.high_bits) - 1)) << layout.low_bits;
  }
  return code;
}

// Scale and bias of group g (inside its block) of lane r, as the kernels form them.
void read_scales(const TileLayout& layout, const uint8_t* block, int64_t g, int64_t r, float* scale,
                 float* bias) {
  const bool two_levels = layout.sub_scale_bits > 0;
  const DType type = two_levels ? DType::F16 : layout.scale_type;
  const int64_t lane = ((two_levels ? 0 : g * kTile) + r) * size_of(type);
  convert_to_f32(type, block + layout.scale_offset + lane, scale, 1);
  if (!layout.symmetric) convert_to_f32(type, block + layout.bias_offset + lane, bias, 1);
  if (two_levels) {
    const uint8_t* p = block + layout.sub_offset + g * layout.sub_stride + r;
    const bool nibbles = layout.sub_scale_bits == 4;
    *scale *= static_cast<float>(nibbles ? *p & 15 : static_cast<int8_t>(*p));
    if (!layout.symmetric) {
      *bias *= static_cast<float>(nibbles ? *p >> 4 : static_cast<int8_t>(p[kTile]));
    }
  }
  if (layout.symmetric) *bias = -*scale * static_cast<float>(1 << (layout.bits - 1));
}

void read_affine_row(const TileLayout& layout, const uint8_t* tile, int64_t r, float* out) {
  for (int64_t g = 0; g < layout.groups; ++g) {
    const uint8_t* block = tile + g / layout.block_groups * layout.block_bytes;
    float scale = 0;
    float bias = 0;
    read_scales(layout, block, g % layout.block_groups, r, &scale, &bias);
    const int64_t first = g % layout.block_groups * layout.group;
    for (int64_t k = 0; k < layout.group && g * layout.group + k < layout.cols; ++k) {
      const uint32_t code = code_at(layout, block, first + k, r);
      // As MatrixSource::read_f32 defines it: product and sum each rounded.
      out[g * layout.group + k] = scale * static_cast<float>(code) + bias;
    }
  }
}

void tile16_gather(const ops::GatherArgs& a) {
  const TileLayout layout(a.w.format, a.w.cols);
  const auto* data = static_cast<const uint8_t*>(a.w.data);
  const auto rows = [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> element_row;
    for (int64_t i = begin; i < end; ++i) {
      const uint8_t* tile = data + a.ids[i] / kTile * layout.tile_bytes;
      const int64_t r = a.ids[i] % kTile;
      float* out = a.out + i * layout.cols;
      if (layout.affine) {
        read_affine_row(layout, tile, r, out);
        continue;
      }
      const auto size = static_cast<size_t>(size_of(a.w.format.dense_type));
      element_row.resize(static_cast<size_t>(layout.cols) * size);
      const uint8_t* in = tile + static_cast<size_t>(r) * size;
      for (size_t k = 0; k < static_cast<size_t>(layout.cols); ++k) {
        std::memcpy(element_row.data() + k * size, in + k * kTile * size, size);
      }
      convert_to_f32(a.w.format.dense_type, element_row.data(), out, layout.cols);
    }
  };
  if (a.count * layout.cols < 100'000) {
    rows(0, a.count);
  } else {
    ThreadPool::shared().parallel_for(a.count, 1, rows);
  }
}

}  // namespace

bool tile16_supports(const WeightFormat& format, int64_t cols) {
  if (format.kind == WeightFormat::Kind::Dense) {
    return is_one_of(format.dense_type, DType::F32, DType::F16, DType::BF16, DType::F8E4M3);
  }
  if (format.sub_scale_bits > 0 &&
      (!is_one_of(format.sub_scale_bits, 4, 6, 8) || cols % kSuperGroup != 0 ||
       !two_levels_possible(format.bits, format.symmetric) ||
       (format.sub_scale_bits == 4 && format.symmetric))) {
    return false;
  }
  return format.kind == WeightFormat::Kind::Affine &&
         ((format.bits >= 1 && format.bits <= 6) || format.bits == 8) &&
         is_one_of(format.group, 16, 32, 64, 128) && cols % format.group == 0 &&
         is_one_of(format.scale_type, DType::F32, DType::F16, DType::BF16);
}

ops::Packing tile16_packing() {
  ops::Packing p;
  p.device = DeviceKind::Cpu;
  p.layout = ops::Layout::CpuTile16;
  p.tile_rows = kTile;
  p.supports = tile16_supports;
  p.bytes = tile16_bytes;
  p.pack = tile16_pack;
  p.gather = tile16_gather;
  return p;
}

}  // namespace mlxcel::cpu

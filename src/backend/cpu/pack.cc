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
};

// Writes `scales` [count][groups] of one tile in the layout's type, lane r of group g.
void put_scales(const TileLayout& layout, const std::vector<float>& scales, int64_t count,
                int64_t offset, uint8_t* tile) {
  const int64_t size = size_of(layout.scale_type);
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t g = 0; g < layout.groups; ++g) {
      uint8_t* to = tile + g / layout.block_groups * layout.block_bytes + offset +
                    (g % layout.block_groups * kTile + r) * size;
      convert_from_f32(layout.scale_type, &scales[static_cast<size_t>(r * layout.groups + g)], to,
                       1);
    }
  }
}

void put_codes(const TileLayout& layout, const uint8_t* codes, int64_t r, uint8_t* tile) {
  const int64_t low_bits = layout.low_bits;
  const int64_t high_bits = layout.high_bits;
  for (int64_t b = 0; b < layout.blocks; ++b) {
    uint8_t* block = tile + b * layout.block_bytes;
    const int64_t size = std::min(layout.block_cols, layout.cols - b * layout.block_cols);
    const uint8_t* in = codes + b * layout.block_cols;
    if (layout.bits == 8) {
      const uint8_t flip = layout.symmetric ? 0x80 : 0;
      for (int64_t k = 0; k < size; ++k) {
        block[k * kTile + r] = static_cast<uint8_t>(in[k] ^ flip);
      }
      continue;
    }
    const int64_t per_dword = layout.dword_cols();
    for (int64_t d = 0; d * per_dword < size; ++d) {
      uint32_t low = 0;
      uint32_t high = 0;
      const int64_t n = std::min(per_dword, size - d * per_dword);
      for (int64_t i = 0; i < n; ++i) {
        const uint32_t code = in[d * per_dword + i];
        low |= (code & ((1U << low_bits) - 1)) << (low_bits * i);
        high |= code >> low_bits << (low_bits * i);
      }
      std::memcpy(block + (d * kTile + r) * 4, &low, 4);
      if (high_bits == 0) continue;
      const int64_t share = low_bits / high_bits;
      uint8_t* at = block + layout.high_offset + (d / share * kTile + r) * 4;
      uint32_t joined = 0;
      std::memcpy(&joined, at, 4);
      joined |= high << (high_bits * (d % share));
      std::memcpy(at, &joined, 4);
    }
  }
}

// Rows [begin, begin + count) of one source go to lanes [lane, lane + count) of a tile.
void put_rows(const TileLayout& layout, const MatrixSource& source, int64_t begin, int64_t count,
              int64_t lane, uint8_t* tile, TileRows& scratch) {
  const auto cols = static_cast<size_t>(layout.cols);
  const auto n = static_cast<size_t>(count);
  if (layout.affine) {
    const auto groups = static_cast<size_t>(layout.groups);
    scratch.codes.resize(n * cols);
    scratch.scales.resize(n * groups);
    scratch.biases.resize(n * groups);
    source.read_affine(begin, count, scratch.codes.data(), scratch.scales.data(),
                       scratch.biases.data());
    const unsigned limit = 1U << layout.bits;
    for (const uint8_t code : scratch.codes) {
      if (code >= limit) throw Error(Code::Corrupt, "a code does not fit its number of bits");
    }
    for (int64_t r = 0; r < count; ++r) {
      put_codes(layout, scratch.codes.data() + static_cast<size_t>(r) * cols, lane + r, tile);
    }
    uint8_t* shifted = tile + lane * size_of(layout.scale_type);
    put_scales(layout, scratch.scales, count, layout.scale_offset, shifted);
    if (!layout.symmetric) put_scales(layout, scratch.biases, count, layout.bias_offset, shifted);
    return;
  }
  const auto size = static_cast<size_t>(size_of(source.format().dense_type));
  for (int64_t r = 0; r < count; ++r) {
    const auto* in = static_cast<const uint8_t*>(source.dense_rows(begin + r));
    if (in == nullptr) {
      // Stored apart: read as f32, which holds every dense type exactly.
      scratch.values.resize(cols);
      scratch.codes.resize(cols * size);
      source.read_f32(begin + r, 1, scratch.values.data());
      convert_from_f32(source.format().dense_type, scratch.values.data(), scratch.codes.data(),
                       layout.cols);
      in = scratch.codes.data();
    }
    uint8_t* out = tile + static_cast<size_t>(lane + r) * size;
    for (size_t k = 0; k < cols; ++k) std::memcpy(out + k * kTile * size, in + k * size, size);
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

void tile16_pack(std::span<const MatrixSource* const> sources, void* out) {
  int64_t rows = 0;
  for (const MatrixSource* s : sources) rows += s->rows();
  const TileLayout layout(sources.front()->format(), sources.front()->cols());
  auto* data = static_cast<uint8_t*>(out);
  ThreadPool::shared().parallel_for(TileLayout::tiles(rows), 4, [&](int64_t begin, int64_t end) {
    TileRows scratch;
    for (int64_t t = begin; t < end; ++t) {
      uint8_t* tile = data + t * layout.tile_bytes;
      std::memset(tile, 0, static_cast<size_t>(layout.tile_bytes));
      const int64_t last = std::min(rows, (t + 1) * kTile);
      for (int64_t row = t * kTile; row < last;) {
        const Place p = place_of(sources, row);
        const MatrixSource& s = *sources[p.source];
        const int64_t count = std::min(last - row, s.rows() - p.row);
        put_rows(layout, s, p.row, count, row - t * kTile, tile, scratch);
        s.release_rows(p.row, count);
        row += count;
      }
    }
  });
}

// ---- reading back

uint32_t code_at(const TileLayout& layout, const uint8_t* block, int64_t k, int64_t r) {
  if (layout.bits == 8) return block[k * kTile + r];
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

void read_affine_row(const TileLayout& layout, const uint8_t* tile, int64_t r, float* out) {
  const auto zero = static_cast<float>(1 << (layout.bits - 1));
  const int64_t size = size_of(layout.scale_type);
  for (int64_t g = 0; g < layout.groups; ++g) {
    const uint8_t* block = tile + g / layout.block_groups * layout.block_bytes;
    const int64_t lane = (g % layout.block_groups * kTile + r) * size;
    float scale = 0;
    float bias = 0;
    convert_to_f32(layout.scale_type, block + layout.scale_offset + lane, &scale, 1);
    if (layout.symmetric) {
      bias = -scale * zero;
    } else {
      convert_to_f32(layout.scale_type, block + layout.bias_offset + lane, &bias, 1);
    }
    const int64_t first = g % layout.block_groups * layout.group;
    for (int64_t k = 0; k < layout.group && g * layout.group + k < layout.cols; ++k) {
      uint32_t code = code_at(layout, block, first + k, r);
      if (layout.symmetric && layout.bits == 8) code ^= 0x80;
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
  return format.kind == WeightFormat::Kind::Affine &&
         ((format.bits >= 1 && format.bits <= 6) || format.bits == 8) &&
         is_one_of(format.group, 16, 32, 64, 128) && cols % format.group == 0 &&
         is_one_of(format.scale_type, DType::F32, DType::F16, DType::BF16);
}

ops::Packing tile16_packing() {
  ops::Packing p;
  p.device = DeviceKind::Cpu;
  p.layout = ops::Layout::CpuTile16;
  p.supports = tile16_supports;
  p.bytes = tile16_bytes;
  p.pack = tile16_pack;
  p.gather = tile16_gather;
  return p;
}

}  // namespace mlxcel::cpu

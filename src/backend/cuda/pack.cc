// Rewrites stored matrices into the layout CudaFragment (fragment_layout.h), in host memory.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "backend/cuda/fragment_layout.h"
#include "backend/cuda/linear.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace mlxcel::cuda {
namespace {

// The rows of one tile as they come from their sources.
struct TileInput {
  std::vector<uint8_t> codes;       // of one source, [rows][cols]
  std::vector<uint8_t> tile_codes;  // [16][padded cols]
  std::vector<float> scales, biases;
  std::vector<uint16_t> super_scales, super_biases;
  std::vector<int8_t> sub_scales, sub_biases;
  std::vector<float> values;  // dense rows that are not contiguous in their file
};

struct RowRange {
  const MatrixSource* source;
  int64_t begin, count;
  int64_t at;  // row of the tile
};

// The rows [first, first + 16) of the stacked sources.
std::vector<RowRange> ranges_of(std::span<const MatrixSource* const> sources, int64_t first) {
  std::vector<RowRange> out;
  int64_t begin = 0;
  const int64_t last = first + kTileRows;
  for (const MatrixSource* s : sources) {
    const int64_t end = begin + s->rows();
    const int64_t low = std::max(first, begin), high = std::min(last, end);
    if (low < high) out.push_back({s, low - begin, high - low, low - first});
    begin = end;
  }
  return out;
}

// Places of a lane's elements in a tile of codes [16][64]: [step][lane][element].
struct ElementPlaces {
  std::array<std::array<std::array<uint16_t, 8>, kLanes>, 4> at{};
};

const ElementPlaces& element_places() {
  static const ElementPlaces places = [] {
    ElementPlaces p;
    for (int row = 0; row < kTileRows; ++row) {
      for (int col = 0; col < kTileCols; ++col) {
        const FragmentPlace f = fragment_place(row, col);
        p.at[static_cast<size_t>(f.step)][static_cast<size_t>(f.lane)]
            [static_cast<size_t>(f.element)] = static_cast<uint16_t>(row * kTileCols + col);
      }
    }
    return p;
  }();
  return places;
}

void put_word(uint8_t* out, int64_t place, uint32_t word) {
  std::memcpy(out + place * 4, &word, 4);
}

// One tile of 4-bit codes, by far the most frequent kind.
void put_tile4(const FragmentLayout& l, const uint8_t* codes, int64_t tile, uint8_t* out) {
  const ElementPlaces& places = element_places();
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (size_t j = 0; j < 4; ++j) {
      const auto& from = places.at[j][lane];
      const auto code = [&](size_t e) { return uint32_t{codes[from[e]]}; };
      const uint32_t low = code(0) | code(2) << 4 | code(4) << 8 | code(6) << 12;
      const uint32_t high = code(1) | code(3) << 4 | code(5) << 8 | code(7) << 12;
      put_word(out + l.plane4,
               (tile * kLanes + static_cast<int64_t>(lane)) * 4 + static_cast<int64_t>(j),
               low | high << 16);
    }
  }
}

// One tile of codes [16][64] into the planes.
void put_tile(const FragmentLayout& l, const uint8_t* codes, int64_t tile, uint8_t* out) {
  const ElementPlaces& places = element_places();
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const int64_t at = tile * kLanes + static_cast<int64_t>(lane);
    uint32_t two[2] = {}, one = 0;
    for (size_t j = 0; j < 4; ++j) {
      const auto& from = places.at[j][lane];
      uint32_t four = 0, bytes[2] = {};
      for (uint32_t e = 0; e < 8; ++e) {
        const uint32_t code = codes[from[e]], p = e / 2, h = e % 2;
        const uint32_t high = (l.bits & 4) != 0 ? code >> 4 : code;
        bytes[e / 4] |= code << (8 * (e % 4));
        four |= (code & 15U) << (4 * p + 16 * h);
        two[j / 2] |= (high & 3U) << (2 * p + 8 * (j % 2) + 16 * h);
        const uint32_t top = (l.bits & 2) != 0 ? high >> 2 : high;
        one |= (top & 1U) << (p + 4 * static_cast<uint32_t>(j) + 16 * h);
      }
      if (l.bits == 8) {
        put_word(out + l.bytes8, at * 8 + static_cast<int64_t>(2 * j), bytes[0]);
        put_word(out + l.bytes8, at * 8 + static_cast<int64_t>(2 * j + 1), bytes[1]);
      } else if ((l.bits & 4) != 0) {
        put_word(out + l.plane4, at * 4 + static_cast<int64_t>(j), four);
      }
    }
    if (l.bits != 8 && (l.bits & 2) != 0) {
      put_word(out + l.plane2, at * 2, two[0]);
      put_word(out + l.plane2, at * 2 + 1, two[1]);
    }
    if (l.bits != 8 && (l.bits & 1) != 0) put_word(out + l.plane1, at, one);
  }
}

void put_typed(DType type, uint8_t* out, int64_t index, float value) {
  convert_from_f32(type, &value, out + index * size_of(type), 1);
}

void put_scales(const FragmentLayout& l, const TileInput& in, int64_t row, int64_t local,
                int64_t stored_groups, uint8_t* out) {
  const int values = l.values_per_scale();
  for (int64_t g = 0; g < stored_groups; ++g) {
    const int64_t at = scale_index(row, g, l.groups, values);
    const auto from = static_cast<size_t>(local * stored_groups + g);
    put_typed(l.scale_type, out + l.scales, at, in.scales[from]);
    if (values == 2) put_typed(l.scale_type, out + l.scales, at + 1, in.biases[from]);
  }
}

void put_sub_scales(const FragmentLayout& l, const TileInput& in, int64_t row, int64_t local,
                    uint8_t* out) {
  const int values = l.values_per_scale();
  const int64_t groups = l.cols / l.group, supers = l.cols / kSuperCols;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t at = scale_index(row, g, l.groups, values);
    const auto from = static_cast<size_t>(local * groups + g);
    out[l.sub_scales + at] = static_cast<uint8_t>(in.sub_scales[from]);
    if (values == 2) out[l.sub_scales + at + 1] = static_cast<uint8_t>(in.sub_biases[from]);
  }
  for (int64_t s = 0; s < supers; ++s) {
    const int64_t at = scale_index(row, s, l.supers, values);
    const auto from = static_cast<size_t>(local * supers + s);
    std::memcpy(out + l.super_scales + at * 2, &in.super_scales[from], 2);
    if (values == 2) std::memcpy(out + l.super_scales + at * 2 + 2, &in.super_biases[from], 2);
  }
}

void read_scales(const FragmentLayout& l, const RowRange& range, TileInput& in) {
  const auto n = static_cast<size_t>(range.count);
  const auto groups = static_cast<size_t>(l.cols / l.group);
  in.scales.resize(n * groups);
  in.biases.resize(n * groups);
  in.codes.resize(n * static_cast<size_t>(l.cols));
  range.source->read_affine(range.begin, range.count, in.codes.data(), in.scales.data(),
                            in.biases.data());
  const uint32_t limit = 1U << l.bits;
  const bool fits = std::ranges::all_of(in.codes, [&](uint8_t c) { return c < limit; });
  if (!fits) throw Error(Code::Corrupt, "a code does not fit its number of bits");
  if (l.sub_scale_bits == 0) return;
  const auto supers = n * static_cast<size_t>(l.cols / kSuperCols);
  for (auto* v : {&in.super_scales, &in.super_biases}) v->resize(supers);
  for (auto* v : {&in.sub_scales, &in.sub_biases}) v->resize(n * groups);
  range.source->read_sub_scales(range.begin, range.count,
                                {.super_scales = in.super_scales.data(),
                                 .super_biases = l.symmetric ? nullptr : in.super_biases.data(),
                                 .sub_scales = in.sub_scales.data(),
                                 .sub_biases = l.symmetric ? nullptr : in.sub_biases.data()});
}

void put_affine(const FragmentLayout& l, const RowRange& range, int64_t tile_row, TileInput& in,
                uint8_t* out) {
  read_scales(l, range, in);
  for (int64_t r = 0; r < range.count; ++r) {
    const int64_t row = range.at + r;
    std::memcpy(in.tile_codes.data() + row * l.tile_cols * kTileCols, in.codes.data() + r * l.cols,
                static_cast<size_t>(l.cols));
    if (l.sub_scale_bits == 0) {
      put_scales(l, in, tile_row * kTileRows + row, r, l.cols / l.group, out);
    } else {
      put_sub_scales(l, in, tile_row * kTileRows + row, r, out);
    }
  }
}

// The collected codes of a whole row of tiles.
void put_codes(const FragmentLayout& l, int64_t tile_row, const TileInput& in, uint8_t* out) {
  const int64_t stride = l.tile_cols * kTileCols;
  std::array<uint8_t, kTileRows * kTileCols> tile{};
  for (int64_t t = 0; t < l.tile_cols; ++t) {
    for (int64_t row = 0; row < kTileRows; ++row) {
      std::memcpy(tile.data() + row * kTileCols,
                  in.tile_codes.data() + row * stride + t * kTileCols, kTileCols);
    }
    const int64_t index = tile_row * l.tile_cols + t;
    l.bits == 4 ? put_tile4(l, tile.data(), index, out) : put_tile(l, tile.data(), index, out);
  }
}

template <class Element>
void put_dense_row(const FragmentLayout& l, const Element* from, int64_t tile_row, int row,
                   uint8_t* out) {
  auto* base = reinterpret_cast<Element*>(out + l.dense);
  for (int64_t c = 0; c < l.cols; ++c) {
    const FragmentPlace at = fragment_place(row, static_cast<int>(c % kTileCols));
    const int64_t tile = tile_row * l.tile_cols + c / kTileCols;
    base[((tile * 4 + at.step) * kLanes + at.lane) * 8 + at.element] = from[c];
  }
}

// Pairs of columns stay together: one 4-byte copy each.
void put_dense_row16(const FragmentLayout& l, const uint16_t* from, int64_t tile_row, int row,
                     uint8_t* out) {
  const int64_t pairs = l.cols / 2;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const int64_t step = pair / 8, q = pair % 8;  // steps of 16 columns, 4 to a tile
    const int64_t lane = row % 8 * 4 + q % 4, p = row / 8 + q / 4 * 2;
    const int64_t word = ((tile_row * l.tile_cols * 4 + step) * kLanes + lane) * 4 + p;
    std::memcpy(out + l.dense + word * 4, from + pair * 2, 4);
  }
}

void put_dense(const FragmentLayout& l, const RowRange& range, int64_t tile_row, TileInput& in,
               uint8_t* out) {
  const auto size = size_of(l.dense_type);
  for (int64_t r = 0; r < range.count; ++r) {
    const auto row = static_cast<int>(range.at + r);
    const void* data = range.source->dense_rows(range.begin + r);
    std::vector<uint8_t> narrow;
    if (data == nullptr) {
      in.values.resize(static_cast<size_t>(l.cols));
      range.source->read_f32(range.begin + r, 1, in.values.data());
      narrow.resize(static_cast<size_t>(l.cols * size));
      convert_from_f32(l.dense_type, in.values.data(), narrow.data(), l.cols);
      data = narrow.data();
    }
    if (size == 4) put_dense_row(l, static_cast<const uint32_t*>(data), tile_row, row, out);
    if (size == 2 && l.cols % 2 == 0) {
      put_dense_row16(l, static_cast<const uint16_t*>(data), tile_row, row, out);
    } else if (size == 2) {
      put_dense_row(l, static_cast<const uint16_t*>(data), tile_row, row, out);
    }
    if (size == 1) put_dense_row(l, static_cast<const uint8_t*>(data), tile_row, row, out);
  }
}

}  // namespace

bool fragment_supports(const WeightFormat& f, int64_t cols) {
  if (f.kind == WeightFormat::Kind::Dense) {
    return f.dense_type == DType::F32 || f.dense_type == DType::F16 ||
           f.dense_type == DType::BF16 || f.dense_type == DType::F8E4M3;
  }
  if (f.kind != WeightFormat::Kind::Affine) return false;
  const bool bits_ok = (f.bits >= 1 && f.bits <= 6) || f.bits == 8;
  const bool group_ok = f.group == 16 || f.group == 32 || f.group == 64 || f.group == 128;
  const bool scale_ok =
      f.scale_type == DType::F32 || f.scale_type == DType::F16 || f.scale_type == DType::BF16;
  if (!bits_ok || !group_ok || !scale_ok || cols % f.group != 0) return false;
  return f.sub_scale_bits == 0 || cols % kSuperCols == 0;
}

int64_t fragment_bytes(const WeightFormat& format, int64_t rows, int64_t cols) {
  return make_fragment_layout(format, rows, cols).total_bytes;
}

void fragment_pack(std::span<const MatrixSource* const> sources, void* out) {
  int64_t rows = 0;
  for (const MatrixSource* s : sources) rows += s->rows();
  const FragmentLayout l =
      make_fragment_layout(sources.front()->format(), rows, sources.front()->cols());
  auto* bytes = static_cast<uint8_t*>(out);
  std::memset(bytes, 0, static_cast<size_t>(l.total_bytes));
  ThreadPool::shared().parallel_for(l.tile_rows, 1, [&](int64_t begin, int64_t end) {
    TileInput in;
    const bool affine = l.kind != WeightFormat::Kind::Dense;
    for (int64_t tile_row = begin; tile_row < end; ++tile_row) {
      if (affine) {
        in.tile_codes.assign(static_cast<size_t>(kTileRows * l.tile_cols * kTileCols), 0);
      }
      for (const RowRange& range : ranges_of(sources, tile_row * kTileRows)) {
        if (l.kind == WeightFormat::Kind::Dense) {
          put_dense(l, range, tile_row, in, bytes);
        } else {
          put_affine(l, range, tile_row, in, bytes);
        }
        range.source->release_rows(range.begin, range.count);
      }
      if (affine) put_codes(l, tile_row, in, bytes);
    }
  });
}

}  // namespace mlxcel::cuda

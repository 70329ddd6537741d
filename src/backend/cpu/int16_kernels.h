// The inner kernels of matrix products with activations rounded to sixteen bits, compiled once for
// each instruction set. They read layout CpuTile16 (tile_layout.h) as it is: masking a plane gives
// two codes of an output in a 32-bit lane, a pair, and the activations are stored in the order of
// those pairs.
//
// Every level gives the same bits: a sum over 32 inputs (or 16, where a group has 16) is an exact
// integer; then, for groups in order, part = scale * integer [+ part] [+ bias * sum of x], and
// after 32 inputs y = part * x_scale + y, each step one fused rounding.
#pragma once

#include <cstdint>

#include "backend/cpu/linear_kernels.h"
#include "backend/cpu/tile_layout.h"

namespace mlxcel::cpu {

inline constexpr int64_t kChunk = 32;        // inputs that share an activation scale
inline constexpr int kPairs = 16;            // of a chunk
inline constexpr int64_t kInt16Panel = 256;  // inputs unpacked at once
inline constexpr int kMaxInt16Rows = 12;     // of one micro kernel
inline constexpr int kMaxInt16GemvRows = 4;  // worked on without unpacking to memory
inline constexpr int kNumInt16Codecs = 14;   // the affine codecs of linear_kernels.h
inline constexpr int kNumSubGroups = 2;      // sums in a chunk: 1, or 2 for groups of 16

/// Quantized rows in groups of R rows worked on together: within a group of rows, every array is
/// [chunk][...][R]. x = scale * q.
struct QuantizedX {
  int16_t* q = nullptr;            // [chunk][pair][R][2]
  float* scales = nullptr;         // [chunk][R]
  float* sums = nullptr;           // [chunk][sub group][R]: sums of q; affine formats only
  int32_t* corrections = nullptr;  // likewise: -(zero point) * sum of q; symmetric formats
};

/// Quantizes `rows` (= R) rows of x [rows][stride] into one group of rows.
struct QuantizeArgs {
  const float* x = nullptr;
  int64_t stride = 0;
  int64_t rows = 0, cols = 0;
  int low_bits = 4;    // of the plane whose pairs set the order
  int sub_groups = 1;  // of a chunk
  int32_t zero = 0;    // corrections = -zero * sum
  QuantizedX out;      // sums may be null
};

/// `rows` (= R) rows times the tiles of a range.
struct Int16GemvArgs {
  const TileLayout* layout = nullptr;
  const uint8_t* data = nullptr;
  QuantizedX x;
  float* y = nullptr;
  int64_t y_stride = 0;
  int64_t outputs = 0;  // of the whole matrix
  const float* bias = nullptr;
  TileRange tiles;
};

/// Inputs [begin, end) of one tile, both multiples of a chunk within the padded inputs: codes
/// [pair][16][2] of 16 bits, and scales and biases [chunk][sub group][16] as f32.
struct Int16UnpackArgs {
  const TileLayout* layout = nullptr;
  const uint8_t* tile = nullptr;
  int64_t begin = 0, end = 0;
  uint8_t* codes = nullptr;
  float* scales = nullptr;
  float* biases = nullptr;
};

/// Adds the chunks of an unpacked panel to y [R][16].
struct Int16MicroArgs {
  const uint8_t* codes = nullptr;
  const float* scales = nullptr;
  const float* biases = nullptr;
  QuantizedX x;  // at the panel's first chunk
  int64_t chunks = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
  bool first = false;           // nothing is in y yet
  const float* bias = nullptr;  // [16], added at the end
};

/// What depends on the width of the codes.
struct Int16Codec {
  /// [sub groups - 1][rows - 1]
  void (*gemv[kNumSubGroups][kMaxInt16GemvRows])(const Int16GemvArgs&) = {};
  void (*unpack)(const Int16UnpackArgs&) = nullptr;
};
/// [sub groups - 1][rows - 1]
struct Int16Micro {
  void (*run[kNumSubGroups][kMaxInt16Rows])(const Int16MicroArgs&) = {};
};

struct Int16Kernels {
  const Int16Codec* codecs[kNumInt16Codecs];  // by Codec
  Int16Micro affine, symmetric;
  int micro_rows;
  void (*quantize)(const QuantizeArgs&);
};

#if defined(__x86_64__)
extern const Int16Kernels kInt16Avx2;
extern const Int16Kernels kInt16Vnni;
#endif

}  // namespace mlxcel::cpu

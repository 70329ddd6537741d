// The inner kernels of matrix products, compiled once for each instruction set.
#pragma once

#include <cstdint>

#include "backend/cpu/tile_layout.h"

namespace mlxcel::cpu {

/// How codes become floats. Affine: bits and symmetry; dense: the stored type.
enum class Codec : uint8_t {
  A1,
  A2,
  A3,
  A4,
  A5,
  A6,
  A8,  // affine
  S1,
  S2,
  S3,
  S4,
  S5,
  S6,
  S8,  // affine, symmetric
  F32,
  F16,
  BF16,
  F8E4M3,  // dense
};
inline constexpr int kNumCodecs = 18;
Codec codec_of(const WeightFormat& format);

/// x as the kernels of one matrix read it.
struct PreparedX {
  const float* x = nullptr;  // [m, stride]: inputs times 2^-code_shift
  int64_t stride = 0;
  const float* sums = nullptr;  // [m, groups] sums of the inputs of a group; affine with bias only
};

struct TileRange {
  int64_t begin = 0, end = 0;
};

/// A few rows times the tiles of a range.
struct GemvArgs {
  const TileLayout* layout = nullptr;
  const uint8_t* data = nullptr;
  PreparedX x;
  int64_t m = 1;
  float* y = nullptr;
  int64_t y_stride = 0;
  int64_t rows = 0;  // outputs of the whole matrix
  const float* bias = nullptr;
  TileRange tiles;
};

/// Inputs [begin, end) of one tile, begin a multiple of the block: values [end - begin][16], and
/// scales and biases [groups][16] as f32. Inputs of the last block beyond cols are left out.
struct UnpackArgs {
  const TileLayout* layout = nullptr;
  const uint8_t* tile = nullptr;
  int64_t begin = 0, end = 0;
  float* values = nullptr;
  float* scales = nullptr;
  float* biases = nullptr;
};

/// Adds the groups of an unpacked panel to y for as many rows as the kernel has, sixteen outputs
/// wide.
struct MicroArgs {
  const float* values = nullptr;
  const float* scales = nullptr;
  const float* biases = nullptr;
  const float* x = nullptr;       // [cols][rows of the kernel]
  const float* x_sums = nullptr;  // first row and group of the panel
  int64_t sums_stride = 0;
  int64_t cols = 0, group = 0;  // inputs of the panel; the last group may be shorter
  float* y = nullptr;
  int64_t y_stride = 0;
  bool first = false;           // nothing is in y yet
  const float* bias = nullptr;  // [16], added at the end
};

inline constexpr int kMaxMicroRows = 12;

struct LinearKernels {
  void (*gemv[kNumCodecs])(const GemvArgs&);
  void (*unpack[kNumCodecs])(const UnpackArgs&);
  /// [mode][count - 1]: mode 0 dense, 1 symmetric, 2 affine with biases.
  void (*micro[3][kMaxMicroRows])(const MicroArgs&);
  int micro_rows;
  /// xs[k] = x[k] * 2^-shift[k % 32] for n inputs; xs has room for n rounded up to 16.
  void (*scale_x)(const float* x, const float* factors, float* xs, int64_t n);
  /// out[k][r] = x[r][k] * factors[k % 32] for `rows` rows and n inputs.
  void (*interleave)(const float* x, int64_t x_stride, int64_t rows, const float* factors,
                     float* out, int64_t n);
  /// Sum of n values in an order fixed by n.
  float (*sum)(const float* x, int64_t n);
};

extern const LinearKernels kLinearScalar;
#if defined(__x86_64__)
extern const LinearKernels kLinearAvx2;
extern const LinearKernels kLinearAvx512;
#endif

}  // namespace mlxcel::cpu

// One weight of a matrix in the layout CudaFragment, exact in f32 as the stored format defines it.
// For kernels that are not in a hurry.
#pragma once

#include <cuda_fp8.h>

#include "backend/cuda/convert.cuh"
#include "backend/cuda/fragment_layout.h"

namespace mlxcel::cuda {

__device__ inline float typed_value(DType type, const uint8_t* base, int64_t index) {
  if (type == DType::F32) return reinterpret_cast<const float*>(base)[index];
  if (type == DType::F16) return __half2float(reinterpret_cast<const __half*>(base)[index]);
  if (type == DType::BF16) {
    return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(base)[index]);
  }
  __nv_fp8_e4m3 v;
  v.__x = base[index];
  return static_cast<float>(v);
}

__device__ inline uint32_t code_at(const FragmentLayout& l, const uint8_t* data, int64_t tile,
                                   FragmentPlace at) {
  const int p = at.element / 2, h = at.element % 2, j = at.step;
  const int64_t lane = tile * kLanes + at.lane;
  if (l.bits == 8)
    return data[l.bytes8 + lane * 32 + (2 * j + at.element / 4) * 4 + at.element % 4];
  uint32_t code = 0;
  int shift = 0;
  const auto field = [&](int64_t plane, int words, int word, int bit, int width) {
    const uint32_t w = reinterpret_cast<const uint32_t*>(data + plane)[lane * words + word];
    code |= (w >> bit & ((1U << width) - 1U)) << shift;
    shift += width;
  };
  if ((l.bits & 4) != 0) field(l.plane4, 4, j, 4 * p + 16 * h, 4);
  if ((l.bits & 2) != 0) field(l.plane2, 2, j / 2, 2 * p + 8 * (j % 2) + 16 * h, 2);
  if ((l.bits & 1) != 0) field(l.plane1, 1, 0, p + 4 * j + 16 * h, 1);
  return code;
}

struct ScaleBias {
  float scale, bias;
};

__device__ inline ScaleBias scale_at(const FragmentLayout& l, const uint8_t* data, int64_t row,
                                     int64_t col) {
  const int values = l.symmetric ? 1 : 2;
  const int64_t g = scale_index(row, col / l.group, l.groups, values);
  ScaleBias s{};
  if (l.sub_scale_bits == 0) {
    s.scale = typed_value(l.scale_type, data + l.scales, g);
    if (values == 2) s.bias = typed_value(l.scale_type, data + l.scales, g + 1);
  } else {
    const int64_t u = scale_index(row, col / kSuperCols, l.supers, values);
    const auto* sub = reinterpret_cast<const int8_t*>(data + l.sub_scales);
    s.scale = typed_value(DType::F16, data + l.super_scales, u) * static_cast<float>(sub[g]);
    if (values == 2) {
      s.bias =
          typed_value(DType::F16, data + l.super_scales, u + 1) * static_cast<float>(sub[g + 1]);
    }
  }
  if (values == 1) s.bias = -s.scale * static_cast<float>(1 << (l.bits - 1));
  return s;
}

/// Product and sum rounded one by one, as MatrixSource::read_f32 does.
__device__ inline float weight_at(const FragmentLayout& l, const uint8_t* data, int64_t row,
                                  int64_t col) {
  const int64_t tile = row / kTileRows * l.tile_cols + col / kTileCols;
  const FragmentPlace at =
      fragment_place(static_cast<int>(row % kTileRows), static_cast<int>(col % kTileCols));
  if (l.kind == WeightFormat::Kind::Dense) {
    return typed_value(l.dense_type, data + l.dense,
                       ((tile * 4 + at.step) * kLanes + at.lane) * 8 + at.element);
  }
  const ScaleBias s = scale_at(l, data, row, col);
  return __fadd_rn(__fmul_rn(s.scale, static_cast<float>(code_at(l, data, tile, at))), s.bias);
}

}  // namespace mlxcel::cuda

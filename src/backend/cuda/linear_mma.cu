// Which tensor-core path a product takes: the streaming kernels for up to kStreamedRows rows, above
// that the library on unpacked weights. Both have the same bits, which is checked once for every
// shape before the library is used.
#include <map>
#include <tuple>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/linear.h"
#include "backend/cuda/linear_formats.h"
#include "backend/cuda/linear_library.h"
#include "backend/cuda/linear_mma.cuh"

namespace mlxcel::cuda {
namespace {

constexpr int64_t kStreamedRows = 128;

const MmaFormat* const kFormats[] = {
    &kFormat4Pair64,       &kFormat4Pair32,       &kFormat4Symmetric32, &kFormat4TwoPair,
    &kFormat8Pair64,       &kFormat8Pair32,       &kFormat8Symmetric32, &kFormat6Pair64,
    &kFormat6Pair32,       &kFormat6TwoSymmetric, &kFormat5Pair64,      &kFormat5Pair32,
    &kFormat5Symmetric32,  &kFormat5TwoPair,      &kFormat3Pair64,      &kFormat3Pair32,
    &kFormat3TwoSymmetric, &kFormat2Pair64,       &kFormat2Pair32,      &kFormat2TwoPair};

// Enough warps to keep memory busy for matrices of few rows. Fixed by the matrix, not by the
// device: it decides the bits.
int slices_for(const FragmentLayout& l) {
  int slices = 1;
  while (slices < 8 && l.tile_rows * slices * 2 <= 2112 &&
         l.tile_cols >= slices * 2 * kChunkTiles) {
    slices *= 2;
  }
  return slices;
}

MmaParams params_of(const ops::LinearArgs& a, const FragmentLayout& l) {
  MmaParams p{.layout = l,
              .data = static_cast<const uint8_t*>(a.w.data),
              .x = reinterpret_cast<const __nv_bfloat16*>(a.x),
              .x_stride = a.x_stride,
              .y = a.y,
              .y_stride = a.y_stride,
              .bias = a.bias,
              .m = static_cast<int>(a.m),
              .slices = slices_for(l),
              .y_f32 = a.y_type == DType::F32,
              .f16_scales = l.scale_type == DType::F16};
  // Whole chunks of x in every slice but the last, and no slice without any.
  const auto chunks = static_cast<int>((l.tile_cols + kChunkTiles - 1) / kChunkTiles);
  const auto chunks_each = [&] { return (chunks + p.slices - 1) / p.slices; };
  while (p.slices > 1 && (p.slices - 1) * chunks_each() >= chunks) p.slices /= 2;
  p.slice_tiles = chunks_each() * kChunkTiles;
  return p;
}

// Rows in f32 plus bias, rounded to the type of y.
__global__ void __launch_bounds__(256)
    finish_kernel(const float* sums, const float* bias, void* y, bool y_f32, int64_t y_stride,
                  int64_t m, int64_t rows) {
  const int64_t at = int64_t{blockIdx.x} * 256 + threadIdx.x;
  if (at >= m * rows) return;
  const int64_t t = at / rows, r = at % rows;
  const float v = sums[at] + (bias != nullptr ? bias[r] : 0.0F);
  if (y_f32) {
    static_cast<float*>(y)[t * y_stride + r] = v;
  } else {
    static_cast<__nv_bfloat16*>(y)[t * y_stride + r] = __float2bfloat16_rn(v);
  }
}

__global__ void __launch_bounds__(256)
    count_differences(const uint32_t* a, const uint32_t* b, int64_t n, int* count) {
  for (int64_t i = int64_t{blockIdx.x} * 256 + threadIdx.x; i < n; i += int64_t{gridDim.x} * 256) {
    if (a[i] != b[i]) atomicAdd(count, 1);
  }
}

// Slices one after the other, as the streaming kernels add them.
bool run_library(const MmaParams& p, const void* weights) {
  const FragmentLayout& l = p.layout;
  const bool direct = p.slices == 1 && p.bias == nullptr && p.y_stride == l.rows;
  const Scratch sums(direct ? 0 : p.m * l.rows * static_cast<int64_t>(sizeof(float)));
  for (int s = 0; s < p.slices; ++s) {
    const int64_t begin = int64_t{s} * p.slice_tiles * kTileCols;
    const int64_t end = std::min<int64_t>(l.cols, begin + int64_t{p.slice_tiles} * kTileCols);
    if (begin >= end) break;
    const bool done = library_product({.x = p.x + begin,
                                       .x_stride = p.x_stride,
                                       .w = static_cast<const __nv_bfloat16*>(weights) + begin,
                                       .w_stride = l.cols,
                                       .y = direct ? p.y : sums.as<void>(),
                                       .m = p.m,
                                       .rows = l.rows,
                                       .k = end - begin,
                                       .y_bf16 = direct && !p.y_f32,
                                       .accumulate = s > 0});
    if (!done) return false;
  }
  if (!direct) {
    finish_kernel<<<blocks_for(p.m * l.rows, 256), 256, 0, stream()>>>(
        sums.as<float>(), p.bias, p.y, p.y_f32, p.y_stride, p.m, l.rows);
    MLXCEL_CUDA_LAUNCHED("finish");
  }
  return true;
}

// Runs the rows of `p` through both and compares every bit, in f32 and without bias.
bool library_agrees(MmaParams p, const MmaFormat& format, const void* weights) {
  const int64_t values = p.m * p.layout.rows;
  const Scratch ours(values * 4), theirs(values * 4), count(4);
  p.y_f32 = true;
  p.bias = nullptr;
  p.y_stride = p.layout.rows;
  p.y = ours.as<void>();
  format.run(p);
  p.y = theirs.as<void>();
  if (!run_library(p, weights)) return false;
  int differences = 0;
  MLXCEL_CUDA(cudaMemsetAsync(count.as<void>(), 0, 4, stream()));
  count_differences<<<256, 256, 0, stream()>>>(ours.as<uint32_t>(), theirs.as<uint32_t>(), values,
                                               count.as<int>());
  MLXCEL_CUDA_LAUNCHED("count_differences");
  MLXCEL_CUDA(cudaMemcpyAsync(&differences, count.as<void>(), 4, cudaMemcpyDeviceToHost, stream()));
  MLXCEL_CUDA(cudaStreamSynchronize(stream()));
  if (differences > 0) report_disagreement(p.layout.rows, p.layout.cols, differences, values);
  return differences == 0;
}

using Checked = std::map<std::tuple<int64_t, int64_t, int64_t, bool>, bool>;

}  // namespace

const MmaFormat* find_mma_format(const FragmentLayout& l) {
  if (l.kind == WeightFormat::Kind::Dense) {
    return l.dense_type == DType::BF16 ? &kFormatDense : nullptr;
  }
  const bool two_levels = l.sub_scale_bits != 0;
  if (!two_levels && l.scale_type == DType::F32) return nullptr;
  const int sets = l.group >= kTileCols ? 1 : kTileCols / l.group;
  for (const MmaFormat* f : kFormats) {
    if (f->bits == l.bits && f->symmetric == l.symmetric && f->two_levels == two_levels &&
        f->sets == sets) {
      return f;
    }
  }
  return nullptr;
}

bool linear_mma_supports(const ops::LinearArgs& a) {
  if (a.x_type != DType::BF16 || compute_capability() < 90 || a.w.cols % 8 != 0) return false;
  return find_mma_format(make_fragment_layout(a.w.format, a.w.rows, a.w.cols)) != nullptr;
}

void linear_mma(const ops::LinearArgs& a) {
  const FragmentLayout l = make_fragment_layout(a.w.format, a.w.rows, a.w.cols);
  const MmaFormat& format = *find_mma_format(l);
  MmaParams p = params_of(a, l);
  const bool aligned = reinterpret_cast<uintptr_t>(a.x) % 16 == 0 && a.x_stride % 8 == 0;
  const Scratch copy(aligned ? 0 : a.m * l.cols * 2);
  if (!aligned) {  // 16-byte copies need whole packs
    MLXCEL_CUDA(cudaMemcpy2DAsync(copy.as<void>(), static_cast<size_t>(l.cols) * 2, a.x,
                                  static_cast<size_t>(a.x_stride) * 2,
                                  static_cast<size_t>(l.cols) * 2, static_cast<size_t>(a.m),
                                  cudaMemcpyDeviceToDevice, stream()));
    p.x = copy.as<__nv_bfloat16>();
    p.x_stride = l.cols;
  }
  if (a.m <= kStreamedRows || !library_available()) return format.run(p);
  const Scratch weights(l.rows * l.cols * 2);
  format.unpack(l, p.data, weights.as<void>());
  static Checked checked;  // by shape; steps run one at a time
  const auto key = std::make_tuple(l.rows, l.cols, p.x_stride, p.y_f32);
  auto it = checked.find(key);
  if (it == checked.end()) {
    it = checked.emplace(key, library_agrees(p, format, weights.as<void>())).first;
  }
  if (!it->second || !run_library(p, weights.as<void>())) format.run(p);
}

}  // namespace mlxcel::cuda

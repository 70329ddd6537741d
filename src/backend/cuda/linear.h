// Parts of the matrix products that their files share.
#pragma once

#include <span>

#include "backend/cuda/fragment_layout.h"
#include "ops/kernel_table.h"

namespace mlxcel::cuda {

// ---- pack.cc: the layout CudaFragment
/// Dense f32, f16, bf16 and f8e4m3 of any cols; affine bits 1 to 6 and 8, groups 16 to 128 that
/// divide cols, scales f32, f16 or bf16.
bool fragment_supports(const WeightFormat& format, int64_t cols);
int64_t fragment_bytes(const WeightFormat& format, int64_t rows, int64_t cols);
void fragment_pack(std::span<const MatrixSource* const> sources, void* out);

/// y = x W^T + bias by f32 arithmetic on exact weights; any format, any types (linear_any.cu).
void linear_any(const ops::LinearArgs& args);
/// Whether the tensor-core kernels take this product: bf16 activations and a weight format that
/// they unpack.
bool linear_mma_supports(const ops::LinearArgs& args);
/// The same on tensor cores, weights rounded to bf16 (linear_mma.cu).
void linear_mma(const ops::LinearArgs& args);

}  // namespace mlxcel::cuda

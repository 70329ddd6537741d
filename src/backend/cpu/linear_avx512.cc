#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "backend/cpu/linear_kernels.h"
#include "backend/cpu/target.h"
#include "tensor/dtype.h"

// gcc 12 takes the undefined pass-through operand of its own intrinsics for a mistake.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
MLXCEL_TARGET_BEGIN(MLXCEL_AVX512_FEATURES)
namespace mlxcel::cpu {
namespace avx512 {
namespace {
// In this order: later parts use earlier ones.
#include "backend/cpu/vec_avx512-inl.h"

#include "backend/cpu/vec_common-inl.h"

#include "backend/cpu/tile-inl.h"

#include "backend/cpu/linear-inl.h"
}  // namespace
}  // namespace avx512

const LinearKernels kLinearAvx512 = avx512::kTable;
}  // namespace mlxcel::cpu
MLXCEL_TARGET_END
#endif

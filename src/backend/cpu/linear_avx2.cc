#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "backend/cpu/linear_kernels.h"
#include "backend/cpu/target.h"
#include "tensor/dtype.h"

MLXCEL_TARGET_BEGIN(MLXCEL_AVX2_FEATURES)
namespace mlxcel::cpu {
namespace avx2 {
namespace {
// In this order: later parts use earlier ones.
#include "backend/cpu/vec_avx2-inl.h"

#include "backend/cpu/vec_common-inl.h"

#include "backend/cpu/tile-inl.h"

#include "backend/cpu/linear-inl.h"
}  // namespace
}  // namespace avx2

const LinearKernels kLinearAvx2 = avx2::kTable;
}  // namespace mlxcel::cpu
MLXCEL_TARGET_END
#endif

#if defined(__x86_64__)
#include "backend/cpu/int16_avx2.h"

MLXCEL_TARGET_BEGIN(MLXCEL_AVX2_FEATURES)
namespace mlxcel::cpu {
namespace avx2 {
namespace {
// In this order: later parts use earlier ones.
#include "backend/cpu/vec_avx2-inl.h"

#include "backend/cpu/vec_common-inl.h"

#include "backend/cpu/tile-inl.h"

#include "backend/cpu/int16_avx2-inl.h"

#include "backend/cpu/pairs-inl.h"

#include "backend/cpu/int16_micro-inl.h"

#include "backend/cpu/quantize-inl.h"
}  // namespace
}  // namespace avx2

const Int16Kernels kInt16Avx2 = {
    .codecs = {&avx2::kA1, &avx2::kA2, &avx2::kA3, &avx2::kA4, &avx2::kA5, &avx2::kA6, &avx2::kA8,
               &avx2::kS1, &avx2::kS2, &avx2::kS3, &avx2::kS4, &avx2::kS5, &avx2::kS6, &avx2::kS8},
    .affine = avx2::make_micro<false>(),
    .symmetric = avx2::make_micro<true>(),
    .micro_rows = avx2::kInt16Rows,
    .quantize = avx2::quantize_rows,
};
}  // namespace mlxcel::cpu
MLXCEL_TARGET_END
#endif

#if defined(__x86_64__)
#include "backend/cpu/int16_vnni.h"

// gcc 12 takes the undefined pass-through operand of its own intrinsics for a mistake.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
MLXCEL_TARGET_BEGIN(MLXCEL_VNNI_FEATURES)
namespace mlxcel::cpu {
namespace vnni {
namespace {
// In this order: later parts use earlier ones.
#include "backend/cpu/vec_avx512-inl.h"

#include "backend/cpu/vec_common-inl.h"

#include "backend/cpu/tile-inl.h"

#include "backend/cpu/int16_vnni-inl.h"

#include "backend/cpu/pairs-inl.h"

#include "backend/cpu/int16_micro-inl.h"

#include "backend/cpu/quantize-inl.h"
}  // namespace
}  // namespace vnni

const Int16Kernels kInt16Vnni = {
    .codecs = {&vnni::kA1, &vnni::kA2, &vnni::kA3, &vnni::kA4, &vnni::kA5, &vnni::kA6, &vnni::kA8,
               &vnni::kS1, &vnni::kS2, &vnni::kS3, &vnni::kS4, &vnni::kS5, &vnni::kS6, &vnni::kS8},
    .affine = vnni::make_micro<false>(),
    .symmetric = vnni::make_micro<true>(),
    .micro_rows = vnni::kInt16Rows,
    .quantize = vnni::quantize_rows,
};
}  // namespace mlxcel::cpu
MLXCEL_TARGET_END
#endif

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

#include "backend/cpu/int16-inl.h"
}  // namespace

const Int16Codec kA1 = make_codec<1, 0, false>();
const Int16Codec kS1 = make_codec<1, 0, true>();
const Int16Codec kA2 = make_codec<2, 0, false>();
const Int16Codec kS2 = make_codec<2, 0, true>();
const Int16Codec kA3 = make_codec<2, 1, false>();
const Int16Codec kS3 = make_codec<2, 1, true>();
}  // namespace vnni
}  // namespace mlxcel::cpu
MLXCEL_TARGET_END
#endif

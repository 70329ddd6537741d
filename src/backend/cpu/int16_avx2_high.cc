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

#include "backend/cpu/int16-inl.h"
}  // namespace

const Int16Codec kA5 = make_codec<4, 1, false>();
const Int16Codec kS5 = make_codec<4, 1, true>();
const Int16Codec kA6 = make_codec<4, 2, false>();
const Int16Codec kS6 = make_codec<4, 2, true>();
}  // namespace avx2
}  // namespace mlxcel::cpu
MLXCEL_TARGET_END
#endif

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

const Int16Codec kA1 = make_codec<1, 0, false>();
const Int16Codec kS1 = make_codec<1, 0, true>();
const Int16Codec kA2 = make_codec<2, 0, false>();
const Int16Codec kS2 = make_codec<2, 0, true>();
const Int16Codec kA3 = make_codec<2, 1, false>();
const Int16Codec kS3 = make_codec<2, 1, true>();
}  // namespace avx2
}  // namespace mlxcel::cpu
MLXCEL_TARGET_END
#endif

// The tables that the int16_avx2_*.cc files define, one for each affine codec.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "backend/cpu/int16_kernels.h"
#include "backend/cpu/target.h"
#include "tensor/dtype.h"

namespace mlxcel::cpu::avx2 {

extern const Int16Codec kA1, kA2, kA3, kA4, kA5, kA6, kA8;
extern const Int16Codec kS1, kS2, kS3, kS4, kS5, kS6, kS8;

}  // namespace mlxcel::cpu::avx2

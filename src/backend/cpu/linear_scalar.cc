#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include <cstdint>
#include <cstring>

#include "backend/cpu/linear_kernels.h"
#include "backend/cpu/target.h"
#include "tensor/dtype.h"

namespace mlxcel::cpu {
namespace scalar {
namespace {
// In this order: later parts use earlier ones.
#include "backend/cpu/vec_generic-inl.h"

#include "backend/cpu/vec_common-inl.h"

#include "backend/cpu/tile-inl.h"

#include "backend/cpu/linear-inl.h"
}  // namespace
}  // namespace scalar

const LinearKernels kLinearScalar = scalar::kTable;
}  // namespace mlxcel::cpu

// Tensor-core products with weights of 8 bits, and with bf16 weights.
#include "backend/cuda/linear_formats.h"
#include "backend/cuda/linear_launch.cuh"
#include "backend/cuda/linear_unpack.cuh"

namespace mlxcel::cuda {
namespace {

using Format8Pair64 = FragmentFormat<8, ScaleKind::Pair, 1>;
using Format8Pair32 = FragmentFormat<8, ScaleKind::Pair, 2>;
using Format8Symmetric32 = FragmentFormat<8, ScaleKind::Symmetric, 2>;
using FormatDense = FragmentFormat<16, ScaleKind::None, 1>;

template <class F>
constexpr MmaFormat row() {
  return {.bits = F::kBits,
          .symmetric = !F::kPair,
          .two_levels = F::kTwoLevels,
          .sets = F::kSets,
          .run = run_mma<F>,
          .unpack = unpack_weights<F>};
}

}  // namespace

const MmaFormat kFormat8Pair64 = row<Format8Pair64>();
const MmaFormat kFormat8Pair32 = row<Format8Pair32>();
const MmaFormat kFormat8Symmetric32 = row<Format8Symmetric32>();
const MmaFormat kFormatDense = row<FormatDense>();

}  // namespace mlxcel::cuda

// Tensor-core products with weights of 6 bits.
#include "backend/cuda/linear_formats.h"
#include "backend/cuda/linear_launch.cuh"
#include "backend/cuda/linear_unpack.cuh"

namespace mlxcel::cuda {
namespace {

using Format6Pair64 = FragmentFormat<6, ScaleKind::Pair, 1>;
using Format6Pair32 = FragmentFormat<6, ScaleKind::Pair, 2>;
using Format6TwoSymmetric = FragmentFormat<6, ScaleKind::TwoSymmetric, 4>;

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

const MmaFormat kFormat6Pair64 = row<Format6Pair64>();
const MmaFormat kFormat6Pair32 = row<Format6Pair32>();
const MmaFormat kFormat6TwoSymmetric = row<Format6TwoSymmetric>();

}  // namespace mlxcel::cuda

// Tensor-core products with weights of 3 bits.
#include "backend/cuda/linear_formats.h"
#include "backend/cuda/linear_launch.cuh"
#include "backend/cuda/linear_unpack.cuh"

namespace mlxcel::cuda {
namespace {

using Format3Pair64 = FragmentFormat<3, ScaleKind::Pair, 1>;
using Format3Pair32 = FragmentFormat<3, ScaleKind::Pair, 2>;
using Format3TwoSymmetric = FragmentFormat<3, ScaleKind::TwoSymmetric, 4>;

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

const MmaFormat kFormat3Pair64 = row<Format3Pair64>();
const MmaFormat kFormat3Pair32 = row<Format3Pair32>();
const MmaFormat kFormat3TwoSymmetric = row<Format3TwoSymmetric>();

}  // namespace mlxcel::cuda

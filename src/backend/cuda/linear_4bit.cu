// Tensor-core products with weights of 4 bits.
#include "backend/cuda/linear_formats.h"
#include "backend/cuda/linear_launch.cuh"
#include "backend/cuda/linear_unpack.cuh"

namespace mlxcel::cuda {
namespace {

using Format4Pair64 = FragmentFormat<4, ScaleKind::Pair, 1>;
using Format4Pair32 = FragmentFormat<4, ScaleKind::Pair, 2>;
using Format4Symmetric32 = FragmentFormat<4, ScaleKind::Symmetric, 2>;
using Format4TwoPair = FragmentFormat<4, ScaleKind::TwoPair, 2>;

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

const MmaFormat kFormat4Pair64 = row<Format4Pair64>();
const MmaFormat kFormat4Pair32 = row<Format4Pair32>();
const MmaFormat kFormat4Symmetric32 = row<Format4Symmetric32>();
const MmaFormat kFormat4TwoPair = row<Format4TwoPair>();

}  // namespace mlxcel::cuda

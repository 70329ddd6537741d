// Tensor-core products with weights of 5 bits.
#include "backend/cuda/linear_formats.h"
#include "backend/cuda/linear_launch.cuh"
#include "backend/cuda/linear_unpack.cuh"

namespace mlxcel::cuda {
namespace {

using Format5Pair64 = FragmentFormat<5, ScaleKind::Pair, 1>;
using Format5Pair32 = FragmentFormat<5, ScaleKind::Pair, 2>;
using Format5Symmetric32 = FragmentFormat<5, ScaleKind::Symmetric, 2>;
using Format5TwoPair = FragmentFormat<5, ScaleKind::TwoPair, 2>;

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

const MmaFormat kFormat5Pair64 = row<Format5Pair64>();
const MmaFormat kFormat5Pair32 = row<Format5Pair32>();
const MmaFormat kFormat5Symmetric32 = row<Format5Symmetric32>();
const MmaFormat kFormat5TwoPair = row<Format5TwoPair>();

}  // namespace mlxcel::cuda

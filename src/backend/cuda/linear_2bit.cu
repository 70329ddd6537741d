// Tensor-core products with weights of 2 bits.
#include "backend/cuda/linear_formats.h"
#include "backend/cuda/linear_launch.cuh"
#include "backend/cuda/linear_unpack.cuh"

namespace mlxcel::cuda {
namespace {

using Format2Pair64 = FragmentFormat<2, ScaleKind::Pair, 1>;
using Format2Pair32 = FragmentFormat<2, ScaleKind::Pair, 2>;
using Format2TwoPair = FragmentFormat<2, ScaleKind::TwoPair, 4>;

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

const MmaFormat kFormat2Pair64 = row<Format2Pair64>();
const MmaFormat kFormat2Pair32 = row<Format2Pair32>();
const MmaFormat kFormat2TwoPair = row<Format2TwoPair>();

}  // namespace mlxcel::cuda

#include "backend/cuda/linear.h"

#include "backend/cuda/cuda.h"

namespace mlxcel::cuda {

void linear(const ops::LinearArgs& a) {
  // By type and format alone, so that the number of rows cannot change a bit.
  if (linear_mma_supports(a)) {
    linear_mma(a);
  } else {
    linear_any(a);
  }
}

void register_linear(ops::KernelTable& table) {
  table.add(ops::Packing{.device = DeviceKind::Cuda,
                         .layout = ops::Layout::CudaFragment,
                         .supports = fragment_supports,
                         .bytes = fragment_bytes,
                         .pack = fragment_pack,
                         .gather = gather});
  table.add(ops::LinearKernel{.name = "cuda.fragment",
                              .device = DeviceKind::Cuda,
                              .isa = ops::Isa::Sm80,
                              .layout = ops::Layout::CudaFragment,
                              .supports = [](const WeightFormat&) { return true; },
                              .order = 1,
                              .rank = 10,
                              .run = linear});
}

}  // namespace mlxcel::cuda

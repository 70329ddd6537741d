#include "backend/register.h"

#include <mutex>

#include "backend/cpu/cpu.h"
#ifdef MLXCEL_HAVE_CUDA
#include "backend/cuda/cuda.h"
#include "base/env.h"
#endif
#include "ops/kernel_table.h"
#include "ops/op_table.h"

namespace mlxcel::backend {

void register_all() {
  static std::once_flag once;
  std::call_once(once, [] {
    cpu::register_linear(ops::kernel_table());
    cpu::register_int16_linear(ops::kernel_table());
    cpu::register_ops(ops::op_table(DeviceKind::Cpu));
    cpu::register_experts(ops::op_table(DeviceKind::Cpu));
#ifdef MLXCEL_HAVE_CUDA
    if (env::get("MLXCEL_DEVICE").value_or("gpu") == "gpu" && cuda::register_runtime()) {
      cuda::register_linear(ops::kernel_table());
      cuda::register_ops(ops::op_table(DeviceKind::Cuda));
    }
#endif
  });
}

std::string names() {
#ifdef MLXCEL_HAVE_CUDA
  return "cpu, cuda";
#else
  return "cpu";
#endif
}

std::string gpu_unavailable_reason() {
#ifdef MLXCEL_HAVE_CUDA
  return cuda::unavailable_reason();
#else
  return "this build has no CUDA backend";
#endif
}

}  // namespace mlxcel::backend

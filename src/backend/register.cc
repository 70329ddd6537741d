#include "backend/register.h"

#include <mutex>

#include "backend/cpu/cpu.h"
#include "ops/kernel_table.h"
#include "ops/op_table.h"

namespace mlxcel::backend {

void register_all() {
  static std::once_flag once;
  std::call_once(once, [] {
    cpu::register_linear(ops::kernel_table());
    cpu::register_ops(ops::op_table(DeviceKind::Cpu));
    cpu::register_experts(ops::op_table(DeviceKind::Cpu));
  });
}

}  // namespace mlxcel::backend

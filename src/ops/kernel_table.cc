#include "ops/kernel_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ops/op_table.h"

namespace mlxcel::ops {
namespace {

const char* device_name(DeviceKind kind) { return kind == DeviceKind::Cpu ? "cpu" : "cuda"; }

// True when every row count from 1 up has a kernel.
bool covers_all(std::vector<LinearKernel> kernels) {
  std::sort(kernels.begin(), kernels.end(),
            [](const auto& a, const auto& b) { return a.min_m < b.min_m; });
  int64_t next = 1;
  for (const LinearKernel& k : kernels) {
    if (k.min_m > next) return false;
    if (k.max_m == INT64_MAX) return true;
    next = std::max(next, k.max_m + 1);
  }
  return false;
}

}  // namespace

const LinearKernel& LinearPlan::kernel_for(int64_t m) const {
  for (const LinearKernel& k : kernels_) {
    if (k.min_m <= m && m <= k.max_m) return k;
  }
  throw Error(Code::Internal, fmt::format("no linear kernel for {} rows", m));
}

const Packing& KernelTable::packing_for(const WeightFormat& format, int64_t cols,
                                        Device device) const {
  for (const Packing& p : packings_) {
    if (p.device == device.kind && p.supports(format, cols)) return p;
  }
  throw Error(Code::Unsupported, fmt::format("linear with {} weights of {} columns on {}",
                                             format.str(), cols, device_name(device.kind)));
}

LinearPlan KernelTable::plan(const WeightFormat& format, Layout layout, Device device, Isa cap,
                             Activations activations) const {
  if (device.kind != DeviceKind::Cpu) activations = Activations::Auto;
  const bool quantized = format.kind != WeightFormat::Kind::Dense;
  std::vector<LinearKernel> usable;
  for (const LinearKernel& k : linear_) {
    const bool wanted = activations == Activations::Auto ||
                        (activations == Activations::Int16 && quantized) == k.rounds_activations;
    if (k.device == device.kind && k.layout == layout && k.isa <= cap && wanted &&
        k.supports(format)) {
      usable.push_back(k);
    }
  }
  std::stable_sort(usable.begin(), usable.end(),
                   [](const auto& a, const auto& b) { return a.rank > b.rank; });
  std::set<ReductionOrder> tried;
  for (const LinearKernel& best : usable) {
    if (!tried.insert(best.order).second) continue;
    std::vector<LinearKernel> same;
    std::copy_if(usable.begin(), usable.end(), std::back_inserter(same),
                 [&](const auto& k) { return k.order == best.order; });
    if (covers_all(same)) return LinearPlan(std::move(same));
  }
  throw Error(Code::Unsupported,
              fmt::format("linear with {} weights and {} activations on {} ({})", format.str(),
                          activations_name(activations), device_name(device.kind), isa_name(cap)));
}

KernelTable& kernel_table() {
  static KernelTable table;
  return table;
}

OpTable& op_table(DeviceKind kind) {
  static OpTable tables[2];
  return tables[static_cast<int>(kind)];
}

}  // namespace mlxcel::ops

#include "ops/activations.h"

#include <fmt/core.h>

#include <array>
#include <atomic>

#include "base/env.h"
#include "base/error.h"

namespace mlxcel::ops {
namespace {

constexpr std::array kAll = {Activations::Auto, Activations::Int16, Activations::F32};

Activations from_environment() {
  const auto wanted = env::get("MLXCEL_CPU_ACTIVATIONS");
  if (!wanted) return Activations::Auto;
  for (const Activations a : kAll) {
    if (activations_name(a) == *wanted) return a;
  }
  throw Error(Code::InvalidArgument,
              fmt::format("environment variable MLXCEL_CPU_ACTIVATIONS: '{}' is none of auto, "
                          "int16, f32",
                          *wanted));
}

std::atomic<Activations>& choice() {
  static std::atomic<Activations> value{from_environment()};
  return value;
}

}  // namespace

std::string_view activations_name(Activations a) {
  static constexpr std::array<std::string_view, 3> kNames = {"auto", "int16", "f32"};
  return kNames[static_cast<size_t>(a)];
}

Activations cpu_activations() { return choice().load(std::memory_order_relaxed); }

void set_cpu_activations(Activations a) { choice().store(a, std::memory_order_relaxed); }

}  // namespace mlxcel::ops

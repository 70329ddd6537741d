#include "ops/isa.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/error.h"
#include "ops/ops.h"

namespace mlxcel::ops {
namespace {

constexpr std::array kAll = {Isa::Scalar,     Isa::Neon, Isa::Avx2, Isa::Avx512,
                             Isa::Avx512Vnni, Isa::Sm80, Isa::Sm90};

std::vector<Isa> detect() {
  std::vector<Isa> found = {Isa::Scalar};
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  if (avx2) found.push_back(Isa::Avx2);
  if (avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0) {
    found.push_back(Isa::Avx512);
    if (__builtin_cpu_supports("avx512vnni") != 0) found.push_back(Isa::Avx512Vnni);
  }
#elif defined(__aarch64__)
  found.push_back(Isa::Neon);
#endif
  return found;
}

std::string names(std::span<const Isa> isas) {
  std::string out;
  for (const Isa isa : isas) {
    if (!out.empty()) out += ", ";
    out += isa_name(isa);
  }
  return out;
}

Isa capped_by_environment() {
  const auto available = available_cpu_isas();
  const auto wanted = env::get("MLXCEL_CPU_ISA");
  if (!wanted) return available.back();
  const auto known =
      std::find_if(kAll.begin(), kAll.end(), [&](Isa isa) { return isa_name(isa) == *wanted; });
  if (known == kAll.end() ||
      std::find(available.begin(), available.end(), *known) == available.end()) {
    throw Error(Code::InvalidArgument,
                fmt::format("environment variable MLXCEL_CPU_ISA: '{}' is not a level of this "
                            "machine; it has {}",
                            *wanted, names(available)));
  }
  return *known;
}

std::atomic<Isa>& level() {
  static std::atomic<Isa> value{capped_by_environment()};
  return value;
}

}  // namespace

std::string_view isa_name(Isa isa) {
  static constexpr std::array<std::string_view, 7> kNames = {"scalar",     "neon", "avx2", "avx512",
                                                             "avx512vnni", "sm80", "sm90"};
  return kNames[static_cast<size_t>(isa)];
}

std::span<const Isa> available_cpu_isas() {
  static const std::vector<Isa> found = detect();
  return found;
}

Isa cpu_level() { return level().load(std::memory_order_relaxed); }

void set_cpu_level(Isa isa) {
  const auto available = available_cpu_isas();
  if (std::find(available.begin(), available.end(), isa) == available.end()) {
    throw Error(Code::InvalidArgument,
                fmt::format("this machine lacks {}; it has {}", isa_name(isa), names(available)));
  }
  level().store(isa, std::memory_order_relaxed);
}

std::string cpu_isa() { return std::string(isa_name(cpu_level())); }

}  // namespace mlxcel::ops

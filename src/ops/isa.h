// Instruction-set levels of the CPU backend and the choice between them at run time.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace mlxcel::ops {

/// Levels in rising order on each architecture. Scalar is portable code for the program's baseline
/// (x86-64-v2, armv8-a); Neon is that baseline on Arm; Avx512Vnni is Avx512 with byte products.
enum class Isa : uint8_t { Scalar, Neon, Avx2, Avx512, Avx512Vnni, Sm80, Sm90 };

/// "scalar", "neon", "avx2", "avx512", "avx512vnni", ...
std::string_view isa_name(Isa isa);
/// The levels that this program was built with and this machine can run, rising.
std::span<const Isa> available_cpu_isas();
/// The level in use: the highest available one, capped by MLXCEL_CPU_ISA (read once). Throws
/// InvalidArgument when the variable names an unknown level or one that the machine lacks.
Isa cpu_level();
/// Makes `isa` the level in use from now on, for tests and benchmarks; matrices packed before keep
/// their kernels. Throws InvalidArgument when the machine lacks it.
void set_cpu_level(Isa isa);

}  // namespace mlxcel::ops

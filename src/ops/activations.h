// How quantized matrix products on the CPU read their activations.
#pragma once

#include <cstdint>
#include <string_view>

namespace mlxcel::ops {

/// F32: as they are. Int16: rounded to sixteen bits with one scale for 32 inputs of a row; a matrix
/// without such kernels is an error. Auto: rounded where the instruction set has kernels that gain
/// by it. Dense matrices always read f32.
enum class Activations : uint8_t { Auto, Int16, F32 };

/// "auto", "int16", "f32"
std::string_view activations_name(Activations a);
/// The choice in use for matrices packed from now on: MLXCEL_CPU_ACTIVATIONS (read once), else
/// Auto. Throws InvalidArgument when the variable has another value.
Activations cpu_activations();
/// Replaces the choice, for tests and benchmarks.
void set_cpu_activations(Activations a);

}  // namespace mlxcel::ops

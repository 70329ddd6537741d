// The block layouts of ggml's tensor types and their unpacking into affine groups
// (github.com/ggml-org/ggml, src/ggml-common.h and ggml-quants.c).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "io/gguf.h"
#include "tensor/matrix_source.h"

namespace mlxcel::io {

/// One row of the type table.
struct GgmlTraits {
  GgmlType type;
  std::string_view name;
  int64_t block = 1;        // elements of a block
  int64_t block_bytes = 0;  // bytes of a block
  bool quantized = false;
  DType dtype = DType::F32;  // when not quantized
  WeightFormat format{};     // when quantized
  /// Unpacks `blocks` consecutive blocks: one code byte an element, one scale and one bias (f32) a
  /// group. w = scale * code + bias.
  void (*unpack)(const std::byte* in, int64_t blocks, uint8_t* codes, float* scales,
                 float* biases) = nullptr;
  /// With format.sub_scale_bits: the scales of `blocks` consecutive blocks in two levels.
  void (*sub_scales)(const std::byte* in, int64_t blocks, const SubScales& out) = nullptr;
};

/// Null for a number that is not read here.
const GgmlTraits* ggml_traits(uint32_t type);
inline const GgmlTraits* ggml_traits(GgmlType type) {
  return ggml_traits(static_cast<uint32_t>(type));
}
/// The name of any type number of the format that this build knows of, read or not; else empty.
std::string_view known_ggml_type_name(uint32_t type);

}  // namespace mlxcel::io

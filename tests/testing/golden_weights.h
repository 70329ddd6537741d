// Weights of the golden tests, from a seed: the same numbers, bit for bit, as
// tools/reference/golden_weights.py makes (its head has the formula).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcel::testing {

/// One tensor of a golden checkpoint: its shape, how it is stored and the size of its values.
struct GoldenTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::string kind;  // "f32", "f16", "bf16", "affine", or a ggml block kind such as "q4_K"
  double offset = 0.0, amplitude = 0.0;
  int bits = 0;                // affine
  int64_t group = 0;           // affine
  std::string scale_type;      // affine: "f32", "f16" or "bf16"
  int exponent = 0;            // mxfp4: the lower of the two scale bytes in use
  std::vector<double> fields;  // block kinds: sizes of the f16 fields of a block

  int64_t numel() const;
  bool is_block_kind() const;
};

/// `count` draws of 64 random bits of the stream `name`.
std::vector<uint64_t> golden_bits(uint64_t seed, std::string_view name, int64_t count);
/// Values of a dense tensor before rounding to its stored type.
std::vector<float> golden_dense(uint64_t seed, const GoldenTensor& t);

/// `value` rounded to "f16" or "bf16"; any other type leaves it.
float golden_rounded(float value, std::string_view type);
/// Little-endian bytes of `values` in a stored type: "f32", "f16" or "bf16".
std::string golden_bytes(const std::vector<float>& values, std::string_view type);

/// The three tensors of an MLX affine matrix: codes packed least significant bit first into 32-bit
/// words, and scales and biases [rows, cols / group] in the scale type.
struct GoldenAffine {
  std::string codes, scales, biases;
};
GoldenAffine golden_affine(uint64_t seed, const GoldenTensor& t);

/// The two tensors of an MXFP4 matrix: codes two a byte, the first in the low half, and one E8M0
/// byte for 32 of them.
struct GoldenMxfp4 {
  std::string codes, scales;
};
GoldenMxfp4 golden_mxfp4(uint64_t seed, const GoldenTensor& t);

/// Bytes of a ggml block matrix, row after row.
std::string golden_blocks(uint64_t seed, const GoldenTensor& t);
/// Bytes and values of one block of a kind.
struct GgmlBlock {
  int64_t bytes, values;
};
GgmlBlock ggml_block(std::string_view kind);

}  // namespace mlxcel::testing

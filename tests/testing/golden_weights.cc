#include "testing/golden_weights.h"

#include <cstring>
#include <map>
#include <stdexcept>

#include "tensor/dtype.h"

namespace mlxcel::testing {
namespace {

struct BlockKind {
  GgmlBlock size;
  std::vector<int64_t> field_offsets;
};

const std::map<std::string, BlockKind, std::less<>>& block_kinds() {
  static const std::map<std::string, BlockKind, std::less<>> kinds = {
      {"q4_0", {{18, 32}, {0}}},      {"q4_1", {{20, 32}, {0, 2}}},
      {"q5_0", {{22, 32}, {0}}},      {"q5_1", {{24, 32}, {0, 2}}},
      {"q8_0", {{34, 32}, {0}}},      {"q2_K", {{84, 256}, {80, 82}}},
      {"q3_K", {{110, 256}, {108}}},  {"q4_K", {{144, 256}, {0, 2}}},
      {"q5_K", {{176, 256}, {0, 2}}}, {"q6_K", {{210, 256}, {208}}},
  };
  return kinds;
}

const BlockKind& block_kind(std::string_view kind) {
  const auto found = block_kinds().find(kind);
  if (found == block_kinds().end()) throw std::runtime_error("unknown block kind");
  return found->second;
}

uint64_t fnv1a64(std::string_view name) {
  uint64_t h = 0xCBF29CE484222325ULL;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return h;
}

/// Uniform in [-1, 1), exact in f32.
std::vector<float> uniform(uint64_t seed, std::string_view name, int64_t count) {
  std::vector<float> out;
  for (const uint64_t z : golden_bits(seed, name, count)) {
    out.push_back(static_cast<float>(z >> 40) * 0x1p-23F - 1.0F);
  }
  return out;
}

}  // namespace

float golden_rounded(float value, std::string_view type) {
  if (type == "f16") return f16_to_f32(f32_to_f16(value));
  if (type == "bf16") return bf16_to_f32(f32_to_bf16(value));
  return value;
}

int64_t GoldenTensor::numel() const {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

bool GoldenTensor::is_block_kind() const { return block_kinds().contains(kind); }

std::vector<uint64_t> golden_bits(uint64_t seed, std::string_view name, int64_t count) {
  std::vector<uint64_t> out;
  out.reserve(static_cast<size_t>(count));
  const uint64_t start = seed + fnv1a64(name);
  for (uint64_t i = 1; i <= static_cast<uint64_t>(count); ++i) {
    uint64_t z = start + i * 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    out.push_back(z ^ (z >> 31));
  }
  return out;
}

std::vector<float> golden_dense(uint64_t seed, const GoldenTensor& t) {
  std::vector<float> values = uniform(seed, t.name, t.numel());
  const auto amplitude = static_cast<float>(t.amplitude), offset = static_cast<float>(t.offset);
  for (float& v : values) v = offset + amplitude * v;
  return values;
}

std::string golden_bytes(const std::vector<float>& values, std::string_view type) {
  const DType dtype = type == "f32" ? DType::F32 : type == "f16" ? DType::F16 : DType::BF16;
  std::string bytes(values.size() * static_cast<size_t>(size_of(dtype)), '\0');
  convert_from_f32(dtype, values.data(), bytes.data(), static_cast<int64_t>(values.size()));
  return bytes;
}

GoldenAffine golden_affine(uint64_t seed, const GoldenTensor& t) {
  const int64_t groups = t.numel() / t.group;
  const auto bits = static_cast<unsigned>(t.bits);
  GoldenAffine out;
  out.codes.assign(static_cast<size_t>(t.numel()) * bits / 8, '\0');
  size_t at = 0;  // bit position; rows are whole words, so one run of bits serves all of them
  for (const uint64_t z : golden_bits(seed, t.name + ".codes", t.numel())) {
    const uint64_t code = z >> (64 - bits);
    for (unsigned b = 0; b < bits; ++b, ++at) {
      const unsigned bit = static_cast<unsigned>(code >> b) & 1U;
      out.codes[at / 8] =
          static_cast<char>(static_cast<unsigned char>(out.codes[at / 8]) | (bit << (at % 8)));
    }
  }
  const float middle = static_cast<float>((1U << bits) - 1U) * 0.5F;
  const float step = static_cast<float>(t.amplitude) / middle;
  std::vector<float> scales = uniform(seed, t.name + ".scales", groups);
  std::vector<float> biases = uniform(seed, t.name + ".biases", groups);
  for (size_t g = 0; g < scales.size(); ++g) {
    scales[g] = golden_rounded(step * (1.0F + 0.25F * scales[g]), t.scale_type);
    biases[g] = -(scales[g] * middle) * (1.0F + 0.25F * biases[g]);
  }
  out.scales = golden_bytes(scales, t.scale_type);
  out.biases = golden_bytes(biases, t.scale_type);
  return out;
}

GoldenMxfp4 golden_mxfp4(uint64_t seed, const GoldenTensor& t) {
  GoldenMxfp4 out;
  out.codes.assign(static_cast<size_t>(t.numel()) / 2, '\0');
  size_t i = 0;
  for (const uint64_t z : golden_bits(seed, t.name + ".codes", t.numel())) {
    const auto half = static_cast<unsigned>(z >> 60) << (4 * (i % 2));
    out.codes[i / 2] = static_cast<char>(static_cast<unsigned char>(out.codes[i / 2]) | half);
    ++i;
  }
  for (const uint64_t z : golden_bits(seed, t.name + ".scales", t.numel() / 32)) {
    out.scales.push_back(static_cast<char>(t.exponent + static_cast<int>(z >> 63)));
  }
  return out;
}

std::string golden_blocks(uint64_t seed, const GoldenTensor& t) {
  const BlockKind& kind = block_kind(t.kind);
  const int64_t blocks = t.numel() / kind.size.values;
  std::string bytes;
  for (const uint64_t z : golden_bits(seed, t.name + ".bytes", blocks * kind.size.bytes)) {
    bytes.push_back(static_cast<char>(z >> 56));
  }
  for (size_t f = 0; f < kind.field_offsets.size(); ++f) {
    const auto draws = uniform(seed, t.name + ".field" + std::to_string(f), blocks);
    for (int64_t b = 0; b < blocks; ++b) {
      const float value =
          static_cast<float>(t.fields.at(f)) * (1.0F + 0.25F * draws[static_cast<size_t>(b)]);
      const uint16_t half = f32_to_f16(value);
      std::memcpy(bytes.data() + b * kind.size.bytes + kind.field_offsets[f], &half, 2);
    }
  }
  return bytes;
}

GgmlBlock ggml_block(std::string_view kind) { return block_kind(kind).size; }

}  // namespace mlxcel::testing

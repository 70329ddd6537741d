// A golden case: a tiny checkpoint made from a seed, and what the reference implementation computes
// from it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "testing/golden_weights.h"

namespace mlxcel::testing {

struct GoldenCase {
  std::string name;    // "llama/base"
  std::string oracle;  // versions of the reference
  std::string config_text;
  Json config;
  uint64_t seed = 0;
  std::vector<GoldenTensor> tensors;
  std::vector<int32_t> prompt;
  std::vector<int64_t> positions;          // of the prompt, whose logits are recorded
  std::vector<std::vector<float>> logits;  // [positions][V]
  std::vector<int32_t> greedy;

  std::string family() const { return name.substr(0, name.find('/')); }
  /// Kind of the matrices: "f32", "bf16", "affine4_g64", "q4_0", ...
  std::string storage() const;
  bool is_dense() const;
  bool has_block_kinds() const;
};

/// Folders below tests/data/golden as "family/variant", sorted.
std::vector<std::string> golden_names();
GoldenCase load_golden(const std::string& name);

/// Writes config.json and model.safetensors of a case without ggml blocks into `folder`; `rename`,
/// if given, makes the names of the file's tensors.
void write_safetensors_checkpoint(
    const GoldenCase& c, const std::string& folder,
    const std::function<std::string(const std::string&)>& rename = nullptr);
/// Whether GGUF has words for everything in the config of a case.
bool has_gguf_twin(const GoldenCase& c);
/// The same for families with tensor names of their own.
bool has_dense_twin(const GoldenCase& c);
void write_dense_twin(const GoldenCase& c, const std::string& path);
/// Writes the same weights as a GGUF file, with the row order and names that llama.cpp uses.
void write_gguf_checkpoint(const GoldenCase& c, const std::string& path);

}  // namespace mlxcel::testing

// Opens what a user has: a Hugging Face / MLX SafeTensors directory or a GGUF file.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/config.h"
#include "io/weights.h"

namespace mlxcel::io {

class GgufFile;

struct Checkpoint {
  std::string path;          // directory or .gguf file
  Config config;             // config.json, or synthesized from GGUF metadata under the same keys
  Config generation_config;  // empty when absent
  Config tokenizer_config;   // empty when absent
  std::shared_ptr<const GgufFile> gguf;  // set for GGUF files

  std::string model_type() const;  // lower-cased; throws when the key is missing
  /// The tensors under Hugging Face names, after `renames`.
  Weights weights(std::span<const Rename> renames) const;
  /// Ids that end a generation: generation_config, then config, then tokenizer metadata.
  std::vector<int32_t> eos_token_ids() const;
};

/// Opens metadata and maps the weight files; reads no tensor data. Throws named errors for anything
/// malformed.
Checkpoint open_checkpoint(const std::string& path);

}  // namespace mlxcel::io

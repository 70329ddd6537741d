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
class SafetensorsFile;

struct Checkpoint {
  std::string path;          // directory or .gguf file
  Config config;             // config.json, or synthesized from GGUF metadata under the same keys
  Config generation_config;  // empty when absent
  Config tokenizer_config;   // empty when absent
  std::shared_ptr<const GgufFile> gguf;                             // set for GGUF files
  std::vector<std::shared_ptr<const SafetensorsFile>> safetensors;  // else these

  std::string model_type() const;  // lower-cased; throws when the key is missing
  /// The tensors under Hugging Face names, after `renames`. Throws NotFound when there are none,
  /// Corrupt when two get the same name, Unsupported for quantization methods without a reader.
  /// `device` is where the model is to lie.
  Weights weights(std::span<const Rename> renames, ParallelGroup tp = {}, Device device = {}) const;
  /// Ids that end a generation, without repetition: those of generation_config, of config and of
  /// the tokenizer's eos_token.
  std::vector<int32_t> eos_token_ids() const;
  /// Bytes of tensor data, as stored.
  int64_t weight_bytes() const;
};

/// Opens a directory with config.json and SafeTensors files, a directory with one GGUF model, or a
/// .gguf file: reads metadata and maps the weight files, reads no tensor data. A GGUF file with a
/// vocabulary alone opens too; its weights() throws. Throws NotFound (nothing there, no
/// config.json, no weights, unreadable), InvalidArgument (not JSON, wrong types), Corrupt or
/// Unsupported, naming the file.
Checkpoint open_checkpoint(const std::string& path);

}  // namespace mlxcel::io

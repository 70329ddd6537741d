// The architectures of GGUF files that have a family here: how their metadata keys and tensors are
// called in config.json and in checkpoints of that family. One row each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "io/gguf.h"

namespace mlxcel::io {

struct GgufNameRow {
  std::string_view gguf, hf;  // without ".weight" and ".bias"
};

struct GgufKeyRow {
  std::string_view gguf;  // after "<architecture>."
  std::string_view hf;
  bool real = false;  // else an integer
};

/// Reads metadata below the architecture's prefix. Errors name the file and the key.
class GgufMetadata {
 public:
  GgufMetadata(const GgufFile& file, std::string arch) : file_(file), arch_(std::move(arch)) {}
  std::string key(std::string_view suffix) const;
  bool has(std::string_view suffix) const { return file_.find(key(suffix)) != nullptr; }
  double real(std::string_view suffix, double fallback) const;  // finite
  /// An integer, or a list of one value for every layer, all equal.
  int64_t integer(std::string_view suffix, int64_t fallback) const;
  std::string text(std::string_view suffix) const { return file_.str_or(key(suffix), ""); }
  const GgufFile& file() const { return file_; }

 private:
  const GgufFile& file_;
  std::string arch_;
};

struct GgufArch {
  std::string_view name;        // general.architecture
  std::string_view model_type;  // config.json
  std::string_view class_name;  // config.json, architectures[0]
  bool interleaved_qk = false;  // q and k rows are stored in rotary pairs
  std::span<const GgufKeyRow> keys;
  std::span<const GgufNameRow> globals, blocks;
  /// Settings that follow from the architecture or from which tensors there are; may be null.
  void (*adjust)(Json& config, const GgufMetadata& m) = nullptr;
};

/// The row of an architecture; null when there is none.
const GgufArch* find_gguf_arch(std::string_view name);
/// "llama, qwen2, ...", for messages.
std::string known_gguf_archs();
/// Keys of the plainest architecture, for those without a row.
std::span<const GgufKeyRow> llama_gguf_keys();

}  // namespace mlxcel::io

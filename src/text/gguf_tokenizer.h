// Names of pre-tokenizers in GGUF files.
#pragma once

#include <string_view>
#include <vector>

namespace mlxcel::text {

/// What tokenizer.ggml.pre stands for.
struct GgufPre {
  std::vector<std::string_view> patterns;  // splits one after the other, matches and gaps alike
  bool ignore_merges = false;
  bool add_bos = false;    // unless the file says otherwise
  bool byte_level = true;  // GPT-2's byte alphabet; else plain UTF-8 with <0xNN>
};

/// Throws Unsupported for a name that is not known.
GgufPre gguf_pre(std::string_view name);

}  // namespace mlxcel::text

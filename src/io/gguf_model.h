// GGUF models under Hugging Face names: config keys and tensor names by architecture
// (github.com/ggml-org/ggml, docs/gguf.md; llama.cpp's conversion scripts for the row order of
// llama q/k projections).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "io/config.h"
#include "io/gguf.h"

namespace mlxcel::io {

/// The keys that config.json of the same model has, as far as the metadata and tensors tell them.
/// Beyond them: "rope_freq_factors", the numbers of the tensor "rope_freqs.weight", by which
/// inverse rotary frequencies are to be divided (llama 3 scaling). An architecture without a row in
/// the table gives its name as model_type. Throws InvalidArgument or Unsupported naming file and
/// key.
Json gguf_config(const GgufFile& file);
/// chat_template, add_bos_token, add_eos_token and the special tokens' texts, as in
/// tokenizer_config.json.
Json gguf_tokenizer_config(const GgufFile& file);

struct GgufTensorName {
  std::string name;           // Hugging Face name; the file's own for tensors without one
  int64_t permute_heads = 0;  // rotary heads whose interleaved rows are to be undone
};
/// `config` is gguf_config() of the file. Throws Unsupported when the architecture has no row.
GgufTensorName gguf_tensor_name(const GgufFile& file, const Config& config, std::string_view name);

}  // namespace mlxcel::io

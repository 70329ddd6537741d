#include "gguf_vocab.h"

namespace mlxcel::testing {
namespace {

const io::GgufNumbers* numbers(const io::GgufFile& file, const char* key) {
  const io::GgufFile::Value* value = file.find(key);
  return value != nullptr ? std::get_if<io::GgufNumbers>(value) : nullptr;
}

std::optional<bool> flag(const io::GgufFile& file, const char* key) {
  if (file.find(key) == nullptr) return std::nullopt;
  return file.flag_or(key, false);
}

}  // namespace

text::GgufVocab read_gguf_vocab(const io::GgufFile& file) {
  text::GgufVocab v;
  v.model = file.str_or("tokenizer.ggml.model", "");
  v.pre = file.str_or("tokenizer.ggml.pre", "");
  if (const auto* list = file.strings("tokenizer.ggml.tokens")) v.tokens = *list;
  if (const auto* list = file.strings("tokenizer.ggml.merges")) v.merges = *list;
  if (const auto* list = numbers(file, "tokenizer.ggml.scores")) {
    for (uint64_t i = 0; i < list->count; ++i) {
      v.scores.push_back(static_cast<float>(list->f64(i)));
    }
  }
  if (const auto* list = numbers(file, "tokenizer.ggml.token_type")) {
    for (uint64_t i = 0; i < list->count; ++i) {
      v.token_types.push_back(static_cast<int32_t>(list->i64(i)));
    }
  }
  if (const auto* list = numbers(file, "tokenizer.ggml.precompiled_charsmap")) {
    for (uint64_t i = 0; i < list->count; ++i) {
      v.precompiled_charsmap += static_cast<char>(list->i64(i));
    }
  }
  v.bos = file.i64_or("tokenizer.ggml.bos_token_id", -1);
  v.eos = file.i64_or("tokenizer.ggml.eos_token_id", -1);
  v.unk = file.i64_or("tokenizer.ggml.unknown_token_id", -1);
  v.sep = file.i64_or("tokenizer.ggml.seperator_token_id", -1);
  v.pad = file.i64_or("tokenizer.ggml.padding_token_id", -1);
  v.cls = file.i64_or("tokenizer.ggml.cls_token_id", -1);
  v.mask = file.i64_or("tokenizer.ggml.mask_token_id", -1);
  v.add_bos = flag(file, "tokenizer.ggml.add_bos_token");
  v.add_eos = flag(file, "tokenizer.ggml.add_eos_token");
  v.add_space_prefix = flag(file, "tokenizer.ggml.add_space_prefix");
  v.remove_extra_whitespaces = flag(file, "tokenizer.ggml.remove_extra_whitespaces");
  return v;
}

std::unique_ptr<text::Tokenizer> load_gguf_tokenizer(const std::string& path) {
  const auto file = io::GgufFile::open(path);
  return text::make_gguf_tokenizer(read_gguf_vocab(*file)).value();
}

}  // namespace mlxcel::testing

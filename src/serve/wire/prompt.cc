#include "serve/wire/prompt.h"

#include <fmt/core.h>

#include <algorithm>

#include "serve/chat_session.h"
#include "serve/wire/api_error.h"

namespace mlxcel::serve::wire {
namespace {

using text::TokenId;

// Prompts of one request. Each may wait in the engine's queue, so this bounds memory only.
constexpr size_t kMaxPrompts = 1024;

constexpr std::string_view kForms =
    "expected a string, a list of token ids and strings, or a list of those";

/// Tokens of one prompt, or an empty list after an error.
std::vector<TokenId> tokens_of(Fields& f, std::string_view key, const Json& prompt,
                               const text::Tokenizer& tokenizer) {
  if (prompt.is_string()) return tokenize_raw(tokenizer, prompt.as_string());
  if (prompt.is_object()) {
    const Json* text = prompt.find("prompt_string");
    if (text == nullptr || !text->is_string()) {
      f.fail(key, "expected 'prompt_string' in the object");
      return {};
    }
    const Json* media = prompt.find("multimodal_data");
    if (media != nullptr && media->size() > 0) {
      f.fail(unsupported_field(key, "image input is not supported by this model"));
      return {};
    }
    return tokenize_raw(tokenizer, text->as_string());
  }
  std::vector<TokenId> ids;
  if (!prompt.is_array()) {
    f.fail(key, kForms);
    return ids;
  }
  for (const Json& item : prompt.as_array()) {
    if (item.is_string()) {
      const auto part = ids.empty()
                            ? tokenize_raw(tokenizer, item.as_string())
                            : tokenizer.encode(item.as_string(), {.add_special_tokens = false});
      ids.insert(ids.end(), part.begin(), part.end());
    } else if (item.is_int()) {
      const int64_t id = item.as_int();
      if (id < 0 || id >= tokenizer.vocab_size()) {
        f.fail(key, fmt::format("token {} is outside the vocabulary of {} tokens", id,
                                tokenizer.vocab_size()));
        return {};
      }
      ids.push_back(static_cast<TokenId>(id));
    } else {
      f.fail(key, kForms);
      return {};
    }
  }
  return ids;
}

/// Whether a list is one prompt: token ids, with or without strings between them.
bool is_one_prompt(const Json& list) {
  return std::ranges::any_of(list.as_array(), [](const Json& j) { return j.is_number(); }) &&
         std::ranges::all_of(list.as_array(),
                             [](const Json& j) { return j.is_number() || j.is_string(); });
}

}  // namespace

std::vector<Prompt> read_prompts(Fields& f, std::string_view key,
                                 const text::Tokenizer& tokenizer) {
  std::vector<Prompt> prompts;
  if (!f.ok()) return prompts;
  const Json* value = f.get(key);
  if (value == nullptr) {
    f.fail(key, "is missing");
    return prompts;
  }
  std::vector<const Json*> items;
  if (value->is_array() && !is_one_prompt(*value)) {
    if (value->size() == 0) f.fail(key, "the list is empty");
    if (value->size() > kMaxPrompts) {
      f.fail(key, fmt::format("{} prompts, at most {} are allowed", value->size(), kMaxPrompts));
    }
    for (const Json& item : value->as_array()) items.push_back(&item);
  } else {
    items.push_back(value);
  }
  for (const Json* item : items) {
    if (!f.ok()) return {};
    Prompt prompt;
    prompt.ids = tokens_of(f, key, *item, tokenizer);
    if (f.ok() && prompt.ids.empty()) f.fail(key, "the prompt has no tokens");
    prompt.text = tokenizer.decode(prompt.ids, false);
    prompt.echo = item->is_string() ? item->as_string() : tokenizer.decode(prompt.ids, true);
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace mlxcel::serve::wire

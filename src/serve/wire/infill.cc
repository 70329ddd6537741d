#include "serve/wire/infill.h"

#include <fmt/core.h>

#include <span>

#include "serve/wire/api_error.h"

namespace mlxcel::serve::wire {
namespace {

using text::TokenId;
using Spellings = std::span<const std::string_view>;

// Qwen and StarCoder, CodeLlama, DeepSeek, Granite and CodeGemma.
constexpr std::string_view kPrefix[] = {"<|fim_prefix|>", "<fim_prefix>",
                                        "<fim-prefix>",   "\u2581<PRE>",
                                        "<PRE>",          "<\uFF5Cfim\u2581begin\uFF5C>",
                                        "<|code_prefix|>"};
constexpr std::string_view kSuffix[] = {"<|fim_suffix|>", "<fim_suffix>",
                                        "<fim-suffix>",   "\u2581<SUF>",
                                        "<SUF>",          "<\uFF5Cfim\u2581hole\uFF5C>",
                                        "<|code_suffix|>"};
constexpr std::string_view kMiddle[] = {"<|fim_middle|>", "<fim_middle>",
                                        "<fim-middle>",   "\u2581<MID>",
                                        "<MID>",          "<\uFF5Cfim\u2581end\uFF5C>",
                                        "<|code_middle|>"};
constexpr std::string_view kRepository[] = {"<|fim_repo|>", "<|repo_name|>", "<repo_name>",
                                            "<reponame>",   "<fim-repo>",    "<REPO>"};
constexpr std::string_view kSeparator[] = {"<|file_sep|>", "<|file_separator|>", "<file_sep>"};

std::optional<TokenId> find_one(const text::Tokenizer& tokenizer, Spellings spellings,
                                std::vector<std::string>& found) {
  for (const std::string_view spelling : spellings) {
    const auto id = tokenizer.id_of(spelling);
    if (!id) continue;
    found.emplace_back(spelling);
    return id;
  }
  return std::nullopt;
}

void check_no_marker(std::string_view field, std::string_view text, const InfillMarkers& markers) {
  for (const std::string& spelling : markers.spellings) {
    if (text.find(spelling) != std::string_view::npos) {
      throw bad_field(field, fmt::format("contains the model's marker {}", spelling));
    }
  }
}

std::string read_text(Fields& f, std::string_view key, bool required,
                      const InfillMarkers& markers) {
  std::string text;
  if (required && !f.has(key)) f.fail(key, "is missing");
  f.string(key, text);
  if (!f.ok()) throw f.error();
  check_no_marker(key, text, markers);
  return text;
}

class InfillPrompt {
 public:
  InfillPrompt(const text::Tokenizer& tokenizer, const InfillMarkers& markers)
      : tokenizer_(tokenizer), markers_(markers) {}

  void add(TokenId id) { ids_.push_back(id); }
  void add(std::string_view text) {
    const auto ids = tokenizer_.encode(text, {.add_special_tokens = false});
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

  void add_extra(const Json& extra) {
    if (extra.size() == 0) return;
    const bool named = markers_.repository && markers_.file_separator;
    if (named) {
      add(*markers_.repository);
      add("repository\n");
    }
    for (size_t i = 0; i < extra.size(); ++i) {
      const Json& chunk = extra.as_array()[i];
      const std::string where = fmt::format("input_extra[{}]", i);
      const Json* name = chunk.find("filename");
      const Json* text = chunk.find("text");
      if (text == nullptr || !text->is_string() || (name != nullptr && !name->is_string())) {
        throw bad_field(where, "expected an object with strings 'filename' and 'text'");
      }
      check_no_marker(where, text->as_string(), markers_);
      if (named) {
        add(*markers_.file_separator);
        add((name != nullptr ? name->as_string() : "tmp") + "\n");
      }
      add(text->as_string() + (named ? "" : "\n"));
    }
    if (named) {
      add(*markers_.file_separator);
      add("filename\n");
    }
  }

  std::vector<TokenId> take() { return std::move(ids_); }

 private:
  const text::Tokenizer& tokenizer_;
  const InfillMarkers& markers_;
  std::vector<TokenId> ids_;
};

}  // namespace

InfillMarkers find_infill_markers(const text::Tokenizer& tokenizer) {
  InfillMarkers markers;
  const auto prefix = find_one(tokenizer, kPrefix, markers.spellings);
  const auto suffix = find_one(tokenizer, kSuffix, markers.spellings);
  const auto middle = find_one(tokenizer, kMiddle, markers.spellings);
  std::string missing;
  for (const auto& [id, name] :
       {std::pair{prefix, "prefix"}, std::pair{suffix, "suffix"}, std::pair{middle, "middle"}}) {
    if (!id) missing += (missing.empty() ? "" : ", ") + std::string(name);
  }
  if (!missing.empty()) {
    throw Error(Code::Unsupported,
                fmt::format("infill is not supported by this model: its vocabulary has no {} token "
                            "for filling in the middle",
                            missing));
  }
  markers.prefix = *prefix;
  markers.suffix = *suffix;
  markers.middle = *middle;
  markers.repository = find_one(tokenizer, kRepository, markers.spellings);
  markers.file_separator = find_one(tokenizer, kSeparator, markers.spellings);
  return markers;
}

CompletionRequest read_infill(const Json& body, const ServerState& state) {
  const text::Tokenizer& tokenizer = *state.model.tokenizer;
  const InfillMarkers markers = find_infill_markers(tokenizer);
  Fields f(body);
  const std::string prefix = read_text(f, "input_prefix", true, markers);
  const std::string suffix = read_text(f, "input_suffix", true, markers);
  const std::string prompt = read_text(f, "prompt", false, markers);
  const Json* extra = f.array("input_extra");
  if (!f.ok()) throw f.error();
  InfillPrompt out(tokenizer, markers);
  if (extra != nullptr) out.add_extra(*extra);
  const auto add_prefix = [&] {
    out.add(markers.prefix);
    out.add(prefix);
  };
  if (!state.generation.spm_infill) add_prefix();
  out.add(markers.suffix);
  out.add(suffix);
  if (state.generation.spm_infill) add_prefix();
  out.add(markers.middle);
  out.add(prompt);
  Prompt whole;
  whole.ids = out.take();
  // As tokenize_raw does: a BOS where the tokenizer puts one.
  const auto start = tokenizer.encode("");
  if (!start.empty() && tokenizer.bos_id() == start.front()) {
    whole.ids.insert(whole.ids.begin(), start.front());
  }
  whole.text = tokenizer.decode(whole.ids, false);
  return read_native_fields(f, state, {std::move(whole)});
}

}  // namespace mlxcel::serve::wire

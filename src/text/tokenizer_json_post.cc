// Post-processors of tokenizer.json, as far as one sequence goes: which special tokens stand around
// its ids.
#include <fmt/core.h>

#include "text/tokenizer_json.h"

namespace mlxcel::text {
namespace {

constexpr int kMaxDepth = 16;
constexpr size_t kMaxLayout = 4096;

TokenId checked_id(const Json& json) {
  const int64_t id = json.as_int();
  if (id < 0 || id > kMaxTokenId) {
    throw Error(Code::InvalidArgument, fmt::format("token id {} is out of range", id));
  }
  return static_cast<TokenId>(id);
}

const Json& member(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  if (value == nullptr) {
    throw Error(Code::InvalidArgument, fmt::format("\"{}\" is missing", key));
  }
  return *value;
}

// Puts what a processor makes of "the text" in the place of the text.
void nest(std::vector<TokenId>& layout, const std::vector<TokenId>& inner) {
  std::vector<TokenId> out;
  // A later processor wraps all that the earlier ones gave.
  for (const TokenId id : inner) {
    if (id == kSequencePlace) {
      out.insert(out.end(), layout.begin(), layout.end());
    } else {
      out.push_back(id);
    }
    if (out.size() > kMaxLayout) {
      throw Error(Code::InvalidArgument, "the template adds too many tokens");
    }
  }
  layout = std::move(out);
}

std::vector<TokenId> read_template(const Json& json) {
  std::vector<TokenId> out;
  const Json* table = json.find("special_tokens");
  for (const Json& piece : member(json, "single").as_array()) {
    if (const Json* sequence = piece.find("Sequence")) {
      if (member(*sequence, "id").as_string() != "A") {
        throw Error(Code::InvalidArgument, "the template for one text uses a second one");
      }
      out.push_back(kSequencePlace);
      continue;
    }
    const std::string& name = member(member(piece, "SpecialToken"), "id").as_string();
    const Json* token = table != nullptr ? table->find(name) : nullptr;
    if (token == nullptr) {
      throw Error(Code::InvalidArgument,
                  fmt::format("the template's token \"{}\" is not in special_tokens", name));
    }
    for (const Json& id : member(*token, "ids").as_array()) out.push_back(checked_id(id));
  }
  return out;
}

std::vector<TokenId> read_pair(const Json& json) {
  const auto id_of = [&](std::string_view key) {
    const Json& pair = member(json, key);
    if (pair.size() != 2) {
      throw Error(Code::InvalidArgument, fmt::format("\"{}\" must be a token and its id", key));
    }
    return checked_id(pair.as_array()[1]);
  };
  return {id_of("cls"), kSequencePlace, id_of("sep")};
}

void apply(const Json& json, int depth, std::vector<TokenId>& layout) {
  if (depth > kMaxDepth) throw Error(Code::InvalidArgument, "sequences are nested too deeply");
  const std::string& type = member(json, "type").as_string();
  if (type == "Sequence") {
    for (const Json& part : member(json, "processors").as_array()) apply(part, depth + 1, layout);
  } else if (type == "TemplateProcessing") {
    nest(layout, read_template(json));
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    nest(layout, read_pair(json));
  } else if (type != "ByteLevel") {  // which only trims offsets
    throw Error(Code::Unsupported, fmt::format("unknown post-processor \"{}\"", type));
  }
}

}  // namespace

std::vector<TokenId> read_post_processor(const Json* json) {
  std::vector<TokenId> layout = {kSequencePlace};
  if (json != nullptr && !json->is_null()) {
    with_context("post_processor", [&] { apply(*json, 0, layout); });
  }
  return layout;
}

}  // namespace mlxcel::text

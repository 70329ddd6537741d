// Small tokenizers that use every component, against what the reference libraries make of them
// (tools/reference/tokenizers_goldens.py).
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "testing/paths.h"
#include "text/tokenizer.h"

namespace mlxcel::text {
namespace {

using mlxcel::testing::data_path;

std::vector<TokenId> ids_of(const Json& json) {
  std::vector<TokenId> out;
  for (const Json& id : json.as_array()) out.push_back(static_cast<TokenId>(id.as_int()));
  return out;
}

std::unique_ptr<Tokenizer> load(const Json& entry) {
  const std::string data = read_file(data_path("tokenizers/" + entry.find("file")->as_string()));
  const std::string& kind = entry.find("kind")->as_string();
  if (kind == "json") return parse_tokenizer_json(data).value();
  if (kind == "sentencepiece") return parse_sentencepiece(data).value();
  if (kind == "tekken") return parse_tekken(data).value();
  return parse_tiktoken(data, {entry.find("pattern")->as_string(), {}, "", "", false}).value();
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip) {
  Detokenizer detokenizer(tokenizer, skip);
  std::string out;
  for (const TokenId id : ids) {
    const std::string part = detokenizer.push(id);
    EXPECT_EQ(part, Json::parse(Json(part).dump()).value().as_string()) << "half a character";
    out += part;
  }
  return out + detokenizer.flush();
}

void check_case(const Tokenizer& tokenizer, const Json& c) {
  const std::string& text = c.find("text")->as_string();
  SCOPED_TRACE(text);
  const auto plain = ids_of(*c.find("plain"));
  EXPECT_EQ(tokenizer.encode(text, {false, false}), plain);
  const Json* with_special = c.find("ids");
  const auto ids = with_special != nullptr ? ids_of(*with_special) : plain;
  if (with_special != nullptr) {
    EXPECT_EQ(tokenizer.encode(text), ids);
  }
  for (const bool skip : {true, false}) {
    const Json* expected = c.find(skip ? "skip" : "full");
    if (expected == nullptr) continue;
    EXPECT_EQ(tokenizer.decode(ids, skip), expected->as_string());
    if (expected->as_string().find("\uFFFD") == std::string::npos) {
      EXPECT_EQ(streamed(tokenizer, ids, skip), expected->as_string());
    }
  }
}

TEST(TokenizerGoldens, EncodeAndDecodeLikeTheReferences) {
  const Json goldens = Json::parse(read_file(data_path("tokenizers/golden.json"))).value();
  ASSERT_GE(goldens.size(), 25U);
  for (const Json& entry : goldens.as_array()) {
    SCOPED_TRACE(entry.find("file")->as_string());
    const auto tokenizer = load(entry);
    for (const Json& c : entry.find("cases")->as_array()) check_case(*tokenizer, c);
  }
}

}  // namespace
}  // namespace mlxcel::text

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/file.h"
#include "testing/paths.h"
#include "text/regex.h"
#include "text/tokenizer.h"

namespace mlxcel::text {
namespace {

using mlxcel::testing::data_path;
using mlxcel::testing::TempDir;

std::unique_ptr<Tokenizer> golden(const std::string& name) {
  return parse_tokenizer_json(read_file(data_path("tokenizers/" + name + ".json"))).value();
}

std::string bpe_json(const std::string& vocab, const std::string& merges) {
  return R"({"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,)"
         R"("post_processor":null,"decoder":{"type":"Fuse"},"model":{"type":"BPE","vocab":)" +
         vocab + R"(,"merges":)" + merges + "}}";
}

TEST(TokenizerJson, ReadsMergesAsStringsAndAsPairs) {
  const std::string vocab = R"({"a":0,"b":1,"c":2,"ab":3,"abc":4," ":5," a":6})";
  const auto strings = parse_tokenizer_json(bpe_json(vocab, R"(["a b","ab c"])")).value();
  const auto pairs =
      parse_tokenizer_json(bpe_json(vocab, R"([["a","b"],["ab","c"],[" ","a"]])")).value();
  const std::vector<TokenId> expected = {4, 3, 0};
  EXPECT_EQ(strings->encode("abcaba"), expected);
  EXPECT_EQ(pairs->encode("abcaba"), expected);
  EXPECT_EQ(pairs->encode(" a"), std::vector<TokenId>{6});
}

TEST(TokenizerJson, NamesWhatIsWrong) {
  const auto message = [](const std::string& json) {
    const auto result = parse_tokenizer_json(json);
    return result.ok() ? std::string("no error") : result.error().message();
  };
  EXPECT_THAT(message(""), ::testing::HasSubstr("'{' is expected"));
  EXPECT_THAT(message("{}"), ::testing::HasSubstr("\"model\" is missing"));
  EXPECT_THAT(message(bpe_json(R"({"a":0})", R"(["a b"])")),
              ::testing::HasSubstr("\"b\" of merge 0 is not in the vocabulary"));
  EXPECT_THAT(message(bpe_json(R"({"a":99999999999})", "[]")), ::testing::HasSubstr("outside 0.."));
  EXPECT_THAT(message(bpe_json(R"({"a":-1})", "[]")), ::testing::HasSubstr("outside 0.."));
  EXPECT_THAT(message(R"({"model":{"type":"Magic","vocab":{}}})"),
              ::testing::HasSubstr("unknown tokenizer model \"Magic\""));
  EXPECT_THAT(message(R"({"model":{"type":"BPE","vocab":{},"merges":[]},)"
                      R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"("}}})"),
              ::testing::HasSubstr("regular expression"));
  EXPECT_THAT(message(std::string(300, '[')), ::testing::HasSubstr("line 1"));
}

TEST(Tokenizer, KeepsIllFormedBytes) {
  const auto tokenizer = golden("llama3");
  const std::string text = "a\xFF\xFE \xE4\xBD\xF0\x9F\x98 b\xC0\x80 \xED\xA0\x80";
  std::string bytes;
  for (const TokenId id : tokenizer->encode(text, {false, false})) bytes += tokenizer->bytes(id);
  EXPECT_EQ(bytes, text);
  EXPECT_EQ(golden("llama2")->encode("a\xFFz", {false, false}),
            golden("llama2")->encode("a\uFFFDz", {false, false}));
}

TEST(Tokenizer, EncodesLongRunsInReasonableTime) {
  for (const char* name : {"llama3", "llama2", "unigram", "bert_lower", "deepseek", "added"}) {
    const auto tokenizer = golden(name);
    for (const char* unit : {"a", " ", "\n", "가", "!", "1", "e\u0301"}) {
      std::string text;
      for (int i = 0; i < 100'000; ++i) text += unit;
      EXPECT_FALSE(tokenizer->encode(text).empty() && std::string(name) != "bert_lower") << name;
    }
  }
}

TEST(Tokenizer, IsThreadSafe) {
  const auto tokenizer = golden("qwen2");
  const std::string text = read_file(data_path("tokenizers/golden.json")).substr(0, 20'000);
  const auto expected = tokenizer->encode(text);
  std::vector<std::thread> threads;
  std::vector<int> same(4);
  for (size_t t = 0; t < same.size(); ++t) {
    threads.emplace_back([&, t] { same[t] = tokenizer->encode(text) == expected ? 1 : 0; });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(same, std::vector<int>(4, 1));
}

TEST(Regex, StopsHostilePatterns) {
  const auto pattern = compile_regex("(a+)+[bc]");
  Match match;
  EXPECT_THROW(pattern->find(std::string(5000, 'a'), 0, match), Error);
  EXPECT_THROW(compile_regex(std::string(1 << 20, 'a')), Error);
  EXPECT_THROW(compile_regex("[" + std::string(10'000, '[')), Error);
}

TEST(Regex, FollowsOniguruma) {
  const auto first = [](const char* pattern, std::string_view text) -> std::string {
    Match m;
    return compile_regex(pattern, false)->find(text, 0, m)
               ? std::string(text.substr(m.begin, m.end - m.begin))
               : "none";
  };
  EXPECT_EQ(first(R"(\h+)", "xyz0aF"), "0aF");                // hexadecimal digits
  EXPECT_EQ(first(R"(\s)", "\u180e\u0085"), "\u0085");        // White_Space
  EXPECT_EQ(first(R"([\p{L}&&[^\p{Han}]]+)", "中a文"), "a");  // intersection
  EXPECT_EQ(first(R"((?m:a.b))", "a\nb"), "a\nb");            // Ruby's m: dot matches newlines
  EXPECT_EQ(first(R"(^b)", "a\nb"), "b");                     // line anchors
  EXPECT_EQ(first(R"([[:alpha:]]+)", "1é2"), "é");
  EXPECT_EQ(first(R"([a-c[x-z]]+)", "mxaz"), "xaz");  // nested classes
  EXPECT_EQ(first(R"([^\S\n]+)", "a \t\n"), " \t");
}

TEST(LoadTokenizer, LooksForTheKnownFiles) {
  const TempDir dir;
  const auto missing = load_tokenizer(dir.path());
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), Code::NotFound);
  EXPECT_THAT(missing.error().message(), ::testing::HasSubstr("tokenizer.model"));
  dir.write("tokenizer.model", read_file(data_path("tokenizers/sp_bpe.model")));
  const auto plain = load_tokenizer(dir.path()).value();
  EXPECT_EQ(plain->encode("").size(), 1U);
  dir.write("tokenizer_config.json", R"({"add_bos_token":false,"add_eos_token":true})");
  const auto flagged = load_tokenizer(dir.path()).value();
  EXPECT_EQ(flagged->encode(""), std::vector<TokenId>{*flagged->eos_id()});
  dir.write("tokenizer.json", read_file(data_path("tokenizers/llama3.json")));
  EXPECT_EQ(load_tokenizer(dir.path()).value()->id_of("<|eot|>").has_value(), true);
}

TEST(SentencePiece, RefusesBrokenFiles) {
  const std::string whole = read_file(data_path("tokenizers/sp_bpe.model"));
  for (size_t n = 0; n < whole.size(); n += 97) {
    const auto result = parse_sentencepiece(std::string_view(whole).substr(0, n));
    if (!result.ok()) {
      EXPECT_FALSE(result.error().message().empty());
    }
  }
  EXPECT_FALSE(parse_sentencepiece("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF").ok());
}

}  // namespace
}  // namespace mlxcel::text

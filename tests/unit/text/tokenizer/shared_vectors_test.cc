// The published test vectors of the shared data folder.
#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "gguf_vocab.h"
#include "testing/paths.h"

namespace mlxcel::text {
namespace {

using mlxcel::testing::shared_path;

std::vector<std::string> read_inputs(const std::string& path) {
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  const std::string all = read_file(path);
  std::vector<std::string> out;
  for (size_t at = 0;;) {
    const size_t end = all.find(kSeparator, at);
    if (end == std::string::npos) return out;
    out.push_back(all.substr(at, end - at));
    at = end + kSeparator.size();
  }
}

std::vector<std::vector<TokenId>> read_outputs(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::vector<std::vector<TokenId>> out;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream ids(line);
    out.emplace_back();
    for (TokenId id; ids >> id;) out.back().push_back(id);
  }
  return out;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Detokenizer detokenizer(tokenizer);
  std::string out;
  for (const TokenId id : ids) out += detokenizer.push(id);
  return out + detokenizer.flush();
}

class GgufVectors : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufVectors, EncodesLikeTheReference) {
  const std::string path =
      shared_path(std::string("tokenizers/ggml-vocab-") + GetParam() + ".gguf");
  if (path.empty()) GTEST_SKIP() << "no shared data";
  const auto tokenizer = mlxcel::testing::load_gguf_tokenizer(path);
  const auto inputs = read_inputs(path + ".inp");
  const auto outputs = read_outputs(path + ".out");
  ASSERT_EQ(inputs.size(), 46U);
  ASSERT_EQ(outputs.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto ids = tokenizer->encode(inputs[i], {false, false});
    EXPECT_EQ(ids, outputs[i]) << "text " << i << ": " << inputs[i];
    EXPECT_EQ(streamed(*tokenizer, ids), tokenizer->decode(ids));
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufVectors,
                         ::testing::Values("bert-bge", "deepseek-coder", "falcon", "gpt-2",
                                           "llama-spm", "phi-3", "starcoder"));

void check_stories(const Tokenizer& tokenizer) {
  const Json golden = Json::parse(read_file(shared_path("stories260K/golden.json"))).value();
  for (const Json& entry : golden.find("encode")->as_array()) {
    std::vector<TokenId> expected;
    for (const Json& id : entry.find("ids")->as_array()) {
      expected.push_back(static_cast<TokenId>(id.as_int()));
    }
    const std::string& text = entry.find("text")->as_string();
    const auto ids = tokenizer.encode(text);
    EXPECT_EQ(ids, expected) << text;
    EXPECT_EQ(streamed(tokenizer, ids), tokenizer.decode(ids)) << text;
  }
  EXPECT_EQ(tokenizer.vocab_size(), 512);
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.bytes(13), "\n");
  EXPECT_TRUE(tokenizer.strips_leading_space());
}

TEST(Stories260K, FolderAndGgufEncodeLikeTheGolden) {
  const std::string path = shared_path("stories260K/hf");
  if (path.empty()) GTEST_SKIP() << "no shared data";
  check_stories(*load_tokenizer(path).value());
  check_stories(*mlxcel::testing::load_gguf_tokenizer(shared_path("stories260K/stories260K.gguf")));
}

}  // namespace
}  // namespace mlxcel::text

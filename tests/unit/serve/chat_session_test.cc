#include "serve/chat_session.h"

#include <gmock/gmock.h>

#include <map>

namespace mlxcel::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using text::TokenId;

/// One id a byte (256 = BOS, written "<s>"), so that ids show the text.
class ByteTokenizer final : public text::Tokenizer {
 public:
  explicit ByteTokenizer(bool adds_bos = true) : adds_bos_(adds_bos) {}
  std::vector<TokenId> encode(std::string_view utf8,
                              const text::EncodeOptions& options) const override {
    std::vector<TokenId> ids;
    if (options.add_special_tokens && adds_bos_) ids.push_back(kBos);
    while (!utf8.empty()) {
      const bool special = options.parse_special_tokens && utf8.starts_with("<s>");
      ids.push_back(special ? kBos : static_cast<unsigned char>(utf8[0]));
      utf8.remove_prefix(special ? 3 : 1);
    }
    return ids;
  }
  std::string decode(std::span<const TokenId>, bool) const override { return {}; }
  std::string_view bytes(TokenId) const override { return {}; }
  std::string_view token(TokenId id) const override { return id == kBos ? "<s>" : ""; }
  std::optional<TokenId> id_of(std::string_view) const override { return std::nullopt; }
  bool is_special(TokenId id) const override { return id == kBos; }
  int32_t vocab_size() const override { return 257; }
  std::optional<TokenId> bos_id() const override { return kBos; }
  std::optional<TokenId> eos_id() const override { return std::nullopt; }
  bool strips_leading_space() const override { return false; }
  static constexpr TokenId kBos = 256;

 private:
  bool adds_bos_;
};

Json messages(const char* json) { return Json::parse(json).value(); }

ChatFormat format(const char* source) {
  ChatFormat f;
  f.template_source = source;
  f.bos_token = "<s>";
  f.eos_token = "</s>";
  return f;
}

std::string render(const ChatFormat& f, const char* json) {
  return render_chat(f, ByteTokenizer(), messages(json), Json()).value().text;
}

TEST(RenderChat, TemplateGetsMessagesTokensAndKwargs) {
  ChatFormat f = format(
      "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}"
      "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}{{ mood }}");
  f.extra_context.set("mood", "!");
  EXPECT_EQ(render(f, R"([{"role": "user", "content": "hi"}])"), "<s>[user]hi</s>[assistant]!");
}

TEST(RenderChat, BosComesFromTheTemplateAlone) {
  const Json one = messages(R"([{"role": "user", "content": "a"}])");
  const auto with =
      render_chat(format("{{ bos_token }}{{ messages[0].content }}"), ByteTokenizer(), one, Json());
  EXPECT_THAT(with.value().ids, ElementsAre(ByteTokenizer::kBos, 'a'));
  const auto without =
      render_chat(format("{{ messages[0].content }}"), ByteTokenizer(), one, Json());
  EXPECT_THAT(without.value().ids, ElementsAre('a'));
}

TEST(RenderChat, GenericFormatHasOneBos) {
  const auto r =
      render_chat(ChatFormat{}, ByteTokenizer(), messages(R"([{"role": "system", "content": "S"},
                                          {"role": "user", "content": "U"},
                                          {"role": "assistant", "content": "A"},
                                          {"role": "user", "content": "V"}])"),
                  Json());
  EXPECT_EQ(r.value().text, "System: S\n\nUser: U\n\nAssistant: A\n\nUser: V\n\nAssistant:");
  EXPECT_EQ(r.value().ids[0], ByteTokenizer::kBos);
  EXPECT_NE(r.value().ids[1], ByteTokenizer::kBos);
}

TEST(RenderChat, TextPartsAreJoinedForEveryRole) {
  const ChatFormat f = format("{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}");
  EXPECT_EQ(render(f, R"([{"role": "system", "content": [{"type": "text", "text": "a"},
                                                         {"type": "text", "text": "b"}]},
                          {"role": "tool", "content": [{"type": "text", "text": "c"}]}])"),
            "system=ab;tool=c;");
}

TEST(RenderChat, RefusalsAreNamed) {
  const auto error = [](const ChatFormat& f, const char* json) {
    const auto r = render_chat(f, ByteTokenizer(), messages(json), Json());
    EXPECT_FALSE(r.ok()) << json;
    return r.ok() ? std::string() : r.error().message();
  };
  const ChatFormat f = format("{{ messages[0].content }}");
  EXPECT_THAT(error(f, R"({"role": "user"})"), HasSubstr("messages"));
  EXPECT_THAT(error(f, R"([{"content": "x"}])"), HasSubstr("messages[0]"));
  EXPECT_THAT(error(f, R"([{"role": "user", "content": 5}])"), HasSubstr("messages[0]"));
  EXPECT_THAT(error(f, R"([{"role": "user", "content": [{"type": "image_url"}]}])"),
              HasSubstr("messages[0]"));
  EXPECT_THAT(error(f, R"(["x"])"), HasSubstr("messages[0]"));
  EXPECT_THAT(error(format("{{ raise_exception('no system role') }}"), "[]"),
              HasSubstr("no system role"));
  EXPECT_THAT(error(format("{% if %}"), "[]"), HasSubstr("chat template"));
}

TEST(TokenizeRaw, WrittenBosIsNotDoubled) {
  EXPECT_THAT(tokenize_raw(ByteTokenizer(), "a"), ElementsAre(ByteTokenizer::kBos, 'a'));
  EXPECT_THAT(tokenize_raw(ByteTokenizer(), "<s>a"), ElementsAre(ByteTokenizer::kBos, 'a'));
  EXPECT_THAT(tokenize_raw(ByteTokenizer(false), "<s>a"), ElementsAre(ByteTokenizer::kBos, 'a'));
  EXPECT_THAT(tokenize_raw(ByteTokenizer(), ""), ElementsAre(ByteTokenizer::kBos));
  EXPECT_TRUE(tokenize_raw(ByteTokenizer(false), "").empty());
}

}  // namespace
}  // namespace mlxcel::serve

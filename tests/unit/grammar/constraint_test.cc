// Masks and tokens: what may follow, undoing, jumping ahead.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "text/grammar/builder.h"
#include "text/grammar/constraint.h"
#include "word_tokenizer.h"

namespace mlxcel::text {
namespace {

struct Fixture {
  explicit Fixture(std::vector<std::string> words)
      : tokenizer(std::make_shared<WordTokenizer>(std::move(words))),
        vocab(make_grammar_vocab(tokenizer, {*tokenizer->id_of("<|end|>")},
                                 tokenizer->vocab_size() + 5)) {}
  std::unique_ptr<Constraint> constrain(const std::shared_ptr<const Grammar>& g,
                                        ConstraintOptions options = {}) const {
    return make_constraint(g, vocab, std::move(options));
  }
  TokenId id(std::string_view word) const { return *tokenizer->id_of(word); }

  std::shared_ptr<WordTokenizer> tokenizer;
  std::shared_ptr<const GrammarVocab> vocab;
};

std::vector<uint32_t> mask_of(const Fixture& f, Constraint& c) {
  std::vector<uint32_t> bits((static_cast<size_t>(f.vocab->vocab_size()) + 31) / 32);
  c.fill_mask(bits);
  return bits;
}
bool has(const std::vector<uint32_t>& bits, TokenId id) {
  return ((bits[static_cast<size_t>(id) / 32] >> (id % 32)) & 1) != 0;
}
/// The words that the mask allows.
std::set<std::string> words_of(const Fixture& f, Constraint& c) {
  const auto bits = mask_of(f, c);
  std::set<std::string> out;
  for (TokenId id = 0; id < f.tokenizer->vocab_size(); ++id) {
    if (has(bits, id)) out.insert(std::string(f.tokenizer->bytes(id)));
  }
  for (TokenId id = f.tokenizer->vocab_size(); id < f.vocab->vocab_size(); ++id) {
    EXPECT_FALSE(has(bits, id)) << "an id without a token";
  }
  return out;
}

const std::vector<std::string> kWords = {
    "<|end|>", "<|call|>", "{\"",  "{\"a",     "\":",     "\":\"", "true",     "tru",
    "false",   "\"}",      "\"},", "ab",       "abc",     "\"a\"", "]",        "],",
    "12",      "12,",      ", ",   "</think>", "think>x", "name",  "\"name\":"};

std::shared_ptr<const Grammar> schema(std::string_view text) {
  return Grammar::from_json_schema(Json::parse(text).value()).value();
}

TEST(Constraint, MasksHoldExactlyTheTokensThatFit) {
  const Fixture f(kWords);
  const auto c = f.constrain(Grammar::from_gbnf("root ::= \"ab\" (\"c\" | \"d\")").value());
  EXPECT_EQ(words_of(f, *c), (std::set<std::string>{"a", "ab", "abc"}));
  EXPECT_FALSE(c->may_stop());
  EXPECT_FALSE(c->accept(f.id("true")));
  EXPECT_FALSE(c->accept(f.id("<|end|>")));
  ASSERT_TRUE(c->accept(f.id("ab")));
  EXPECT_EQ(words_of(f, *c), (std::set<std::string>{"c", "d"}));
  ASSERT_TRUE(c->accept(f.id("d")));
  EXPECT_TRUE(c->finished());
  EXPECT_EQ(words_of(f, *c), (std::set<std::string>{"<|end|>"}));
  EXPECT_TRUE(c->accept(f.id("<|end|>")));
  c->rollback(3);
  EXPECT_EQ(words_of(f, *c), (std::set<std::string>{"a", "ab", "abc"}));
}

// The mask must say what accept() says, for every token, at every step of random walks.
TEST(Constraint, MasksAgreeWithAccept) {
  const Fixture f(kWords);
  const std::shared_ptr<const Grammar> grammars[] = {
      schema(R"({"type":"object","properties":{"a":{"type":"boolean"},"name":{"type":"string",
        "maxLength":5},"ab":{"type":"array","items":{"type":"integer"},"maxItems":3}}})"),
      schema(R"({"type":"array","items":{"anyOf":[{"type":"string","pattern":"^ab*c?$"},
        {"type":"number"},{"$ref":"#"}]}})"),
      schema("true"),
      Grammar::from_gbnf("root ::= (item \",\")* \"]\"\nitem ::= \"12\" | \"a\" [a-c]{0,9} | item "
                         "\"+\" item")
          .value(),
      Grammar::from_regex("(ab|abc|\"a\")*(true|false)").value(),
  };
  std::mt19937 random(7);
  for (const auto& g : grammars) {
    for (int walk = 0; walk < 12; ++walk) {
      const auto c = f.constrain(g);
      for (int step = 0; step < 40; ++step) {
        const auto bits = mask_of(f, *c);
        std::vector<TokenId> allowed;
        for (TokenId id = 0; id < f.tokenizer->vocab_size(); ++id) {
          const bool taken = c->accept(id);
          if (taken) {
            c->rollback(1);
            allowed.push_back(id);
          }
          ASSERT_EQ(taken, has(bits, id)) << f.tokenizer->bytes(id) << " at step " << step;
        }
        ASSERT_FALSE(allowed.empty()) << "a dead end";
        const TokenId next = allowed[random() % allowed.size()];
        ASSERT_TRUE(c->accept(next));
        if (next == f.id("<|end|>")) break;
      }
    }
  }
}

TEST(Constraint, SharedMasksAreThoseOfAFreshVocabulary) {
  const auto g = schema(R"({"type":"object","properties":{"a":{"type":"array","items":
    {"type":"object","properties":{"ab":{"type":"string"}},"additionalProperties":false}}}})");
  const Fixture shared(kWords);
  std::mt19937 random(3);
  for (int walk = 0; walk < 20; ++walk) {
    const Fixture fresh(kWords);
    const auto a = shared.constrain(g);
    const auto b = fresh.constrain(g);
    for (int step = 0; step < 30; ++step) {
      const auto bits = mask_of(shared, *a);
      ASSERT_EQ(bits, mask_of(fresh, *b));
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id < shared.tokenizer->vocab_size(); ++id) {
        if (has(bits, id)) allowed.push_back(id);
      }
      const TokenId next = allowed[random() % allowed.size()];
      ASSERT_TRUE(a->accept(next) && b->accept(next));
      if (next == shared.id("<|end|>")) break;
    }
  }
}

TEST(Constraint, ForcedTokensStopWhereALongerOneCouldFollow) {
  const Fixture f(kWords);
  const auto c = f.constrain(schema(R"({"type":"object","properties":{"name":{"const":"ab"}},
    "required":["name"],"additionalProperties":false})"));
  EXPECT_TRUE(c->forced().empty());  // white space may follow the brace
  ASSERT_TRUE(c->accept(f.id("{")));
  EXPECT_TRUE(c->forced().empty());
  ASSERT_TRUE(c->accept(f.id("\"")));
  const auto forced = c->forced();
  // name":  - the colon's token could be ":" with a quote behind it.
  ASSERT_EQ(std::vector<TokenId>(forced.begin(), forced.end()),
            (std::vector<TokenId>{f.id("name")}));
}

TEST(Constraint, BeginsBehindAMarker) {
  const Fixture f(kWords);
  const auto c = f.constrain(schema(R"({"const":true})"), {.after = "</think>", .preserved = {}});
  auto words = words_of(f, *c);
  EXPECT_TRUE(words.contains("{\"") && words.contains("<|call|>") && words.contains("</think>"));
  EXPECT_FALSE(words.contains("<|end|>"));
  for (const char* w : {"ab", "<", "/", "<|call|>", "think>x", "<", "/"}) {
    ASSERT_TRUE(c->accept(f.id(w))) << w;
  }
  words = words_of(f, *c);
  EXPECT_FALSE(words.contains("think>x"));  // ends the block, and no x may follow
  ASSERT_TRUE(c->accept(f.id("t")));
  c->rollback(1);
  ASSERT_TRUE(c->accept(f.id("</think>")));
  EXPECT_EQ(words_of(f, *c), (std::set<std::string>{"t", "tru", "true", " ", "\n", "\t", "\r"}));
}

TEST(Constraint, FreeTextUntilATrigger) {
  const Fixture f(kWords);
  GrammarBuilder b;
  const auto call = b.seq(
      {b.free_until({"<|call|>"}), b.json_schema(Json::parse("{\"type\":\"boolean\"}").value())});
  const auto g = b.build(b.alt({b.free_text({"<|call|>"}), call}));
  const auto c = f.constrain(g, {.after = {}, .preserved = {f.id("<|call|>")}});
  EXPECT_TRUE(c->may_stop());
  ASSERT_TRUE(c->accept(f.id("ab")));
  ASSERT_TRUE(words_of(f, *c).contains("<|end|>"));
  ASSERT_TRUE(c->accept(f.id("<|call|>")));
  EXPECT_EQ(words_of(f, *c), (std::set<std::string>{"t", "tru", "true", "f", "false"}));
}

TEST(Constraint, TokensByIdAndName) {
  const Fixture f(kWords);
  const auto g = Grammar::from_gbnf("root ::= <|call|> !<[2]>* <[6]> \"x\"", f.tokenizer.get());
  ASSERT_TRUE(g.ok()) << g.error().message();
  const auto c = f.constrain(g.value());
  EXPECT_EQ(words_of(f, *c), (std::set<std::string>{"<|call|>"}));
  ASSERT_TRUE(c->accept(f.id("<|call|>")));
  EXPECT_FALSE(c->accept(2));
  ASSERT_TRUE(c->accept(3));
  ASSERT_TRUE(c->accept(6));
  EXPECT_TRUE(words_of(f, *c).contains("x"));
}

}  // namespace
}  // namespace mlxcel::text

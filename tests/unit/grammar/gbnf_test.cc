// llama.cpp's GBNF: the constructs of its documentation, and what is wrong in a grammar.
#include <gtest/gtest.h>

#include "text/grammar/grammar.h"

namespace mlxcel::text {
namespace {

std::shared_ptr<const Grammar> gbnf(std::string_view source) {
  return Grammar::from_gbnf(source).value();
}
std::string error_of(std::string_view source) {
  const auto g = Grammar::from_gbnf(source);
  return g.ok() ? "no error" : g.error().message();
}

TEST(Gbnf, LiteralsClassesAndRepetitions) {
  const auto g = gbnf(R"(root ::= "a" [b-d]* [^x]? "e"{2} "f"{1,} "g"{0,2})");
  EXPECT_TRUE(g->matches("abcdbeef"));
  EXPECT_TRUE(
      g->matches("a\xE2\x82\xAC"
                 "eefffgg"));
  EXPECT_FALSE(g->matches("axeef"));
  EXPECT_FALSE(g->matches("aeefggg"));
  EXPECT_FALSE(g->matches("aee"));
  EXPECT_TRUE(g->matches_prefix("aee"));
  EXPECT_FALSE(g->matches_prefix("b"));
}

TEST(Gbnf, EscapesAndUnicode) {
  const auto g = gbnf("root ::= \"\\x41\\u00e9\\U0001F600\\t\\r\\n\\\\\\\"\\[\\]\" [\\]\\-\\\\]");
  EXPECT_TRUE(g->matches("A\xC3\xA9\xF0\x9F\x98\x80\t\r\n\\\"[]-"));
  EXPECT_TRUE(g->matches("A\xC3\xA9\xF0\x9F\x98\x80\t\r\n\\\"[]]"));
}

TEST(Gbnf, RulesOverSeveralLinesWithComments) {
  const auto g = gbnf(R"gbnf(# an expression
root  ::= (expr "=" ws term "\n")+   # one a line
expr  ::= term ([-+*/] term)*
term  ::= ident | num |
          "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
)gbnf");
  EXPECT_TRUE(g->matches("1+(2*a)=b\n"));
  EXPECT_TRUE(g->matches("1 +2 = 3\nx=y\n"));
  EXPECT_FALSE(g->matches("1+=2\n"));
}

TEST(Gbnf, RecursionOfEveryKind) {
  EXPECT_TRUE(gbnf("root ::= \"(\" root \")\" | \"\"")->matches("((()))"));
  EXPECT_FALSE(gbnf("root ::= \"(\" root \")\" | \"\"")->matches("((())"));
  const auto left = gbnf("root ::= root \"+\" num | num\nnum ::= [0-9]");
  EXPECT_TRUE(left->matches("1+2+3+4"));
  EXPECT_FALSE(left->matches("1+2+"));
  const auto hidden = gbnf("root ::= opt root \"x\" | \"y\"\nopt ::= \"z\"?");
  EXPECT_TRUE(hidden->matches("zyx"));
  EXPECT_TRUE(hidden->matches("yxx"));
  EXPECT_TRUE(gbnf("root ::= root root | \"a\" | \"\"")->matches("aaaa"));
  const auto ambiguous = gbnf("root ::= root root | \"a\"");
  EXPECT_TRUE(ambiguous->matches(std::string(60, 'a')));
}

TEST(Gbnf, EmptyLoopsEnd) {
  EXPECT_TRUE(gbnf("root ::= (\"a\"? item?){2,5} \"!\"\nitem ::= \"b\" item?")->matches("!"));
  EXPECT_TRUE(gbnf("root ::= (e){3,900} \"!\"\ne ::= \"\" | \"a\" e")->matches("aa!"));
  EXPECT_TRUE(gbnf("root ::= (e)* \"!\"\ne ::= \"\" | \"(\" e \")\"")->matches("()(())!"));
}

TEST(Gbnf, LargeCountsAreCounted) {
  const auto g = gbnf("root ::= (\"ab\" | item){3,5000} \".\"\nitem ::= \"[\" item? \"]\"");
  std::string text;
  for (int i = 0; i < 5000; ++i) text += i % 2 == 0 ? "ab" : "[[]]";
  EXPECT_TRUE(g->matches(text + "."));
  EXPECT_FALSE(g->matches(text + "ab."));
  EXPECT_FALSE(g->matches("abab."));
}

TEST(Gbnf, MistakesNameTheirPlace) {
  EXPECT_EQ(error_of("root ::= a\n"),
            "grammar, line 1, column 10: the rule a is used but not defined");
  EXPECT_EQ(error_of("x ::= \"a\""), "grammar, line 1, column 10: there is no rule named root");
  EXPECT_EQ(error_of("root ::= (\"a\"\n"), "grammar, line 1, column 10: this '(' has no ')'");
  EXPECT_EQ(error_of("root ::= \"a"),
            "grammar, line 1, column 10: this text in quotes does not end");
  EXPECT_EQ(error_of("root ::= [a"), "grammar, line 1, column 10: this '[' has no ']'");
  EXPECT_EQ(error_of("root ::= \"\\q\""), "grammar, line 1, column 12: this escape is unknown");
  EXPECT_EQ(error_of("root = \"a\""),
            "grammar, line 1, column 6: ::= is expected behind the rule name root");
  EXPECT_EQ(error_of("root ::= \"a\" {2}{"),
            "grammar, line 1, column 18: a number is expected here");
  EXPECT_EQ(error_of("root ::= root"), "nothing satisfies this grammar or schema");
  EXPECT_NE(error_of("root ::= <think>").find("no vocabulary"), std::string::npos);
  EXPECT_NE(error_of(std::string(300, '(')), "no error");
  std::string deep = "root ::= ";
  for (int i = 0; i < 5000; ++i) deep += '(';
  EXPECT_NE(error_of(deep).find("nested too deeply"), std::string::npos);
}

}  // namespace
}  // namespace mlxcel::text

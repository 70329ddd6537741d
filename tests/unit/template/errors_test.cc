// What a user reads when a template is wrong or refuses a conversation.
#include <gtest/gtest.h>

#include "text/chat_template.h"

namespace mlxcel::text {
namespace {

std::string message(const std::string& source) {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed.ok()) return parsed.error().message();
  const auto text = parsed.value().render(Json::object());
  return text.ok() ? "rendered: " + text.value() : text.error().message();
}

TEST(Errors, RefusalsAreTheTemplatesOwnWords) {
  EXPECT_EQ(message("\n{{ raise_exception('Only user and assistant roles are supported!') }}"),
            "Only user and assistant roles are supported!");
  EXPECT_EQ(message("{% macro m() %}{{ raise_exception('in\nmacro') }}{% endmacro %}{{ m() }}"),
            "in\nmacro");
}

TEST(Errors, SyntaxErrorsNameTheLine) {
  EXPECT_EQ(message("a\n\n{% if %}"),
            "chat template, line 3: Expected an expression, got 'end of statement block'");
  EXPECT_EQ(message("a\n{% endfor %}"), "chat template, line 2: Encountered unknown tag 'endfor'.");
  EXPECT_EQ(message("{% for x in y %}\n\n{% if x %}\n{% endfor %}"),
            "chat template, line 4: Encountered unknown tag 'endfor'. You probably made a nesting "
            "mistake. Jinja is "
            "expecting this tag, but currently looking for 'elif' or 'else' or 'endif'. The "
            "innermost block that needs "
            "to be closed is 'if'.");
  EXPECT_EQ(message("\r\n\r\n{{ 'x' | nothing }}"),
            "chat template, line 3: No filter named 'nothing'.");
  EXPECT_EQ(message("{# \n\n never closed"), "chat template, line 1: Missing end of comment tag");
  EXPECT_EQ(message("{{ (1] }}"), "chat template, line 1: unexpected ']', expected ')'");
}

TEST(Errors, RunTimeErrorsNameLineAndCause) {
  EXPECT_EQ(message("{{ 1 }}\n{{ missing.x }}"), "chat template, line 2: 'missing' is undefined");
  EXPECT_EQ(message("{{ {'a': 1}.b.c }}"),
            "chat template, line 1: 'dict object' has no attribute 'b'");
  EXPECT_EQ(message("{{ [1][5] + 1 }}"), "chat template, line 1: list object has no element 5");
  EXPECT_EQ(message("{{ 'a' + 1 }}"),
            "chat template, line 1: can only concatenate str (not \"int\") to str");
  EXPECT_EQ(message("{{ 1 + 'a' }}"),
            "chat template, line 1: unsupported operand type(s) for +: 'int' and 'str'");
  EXPECT_EQ(message("{% for a in 5 %}{% endfor %}"),
            "chat template, line 1: 'int' object is not iterable");
  EXPECT_EQ(message("{{ 5() }}"), "chat template, line 1: 'int' object is not callable");
  EXPECT_EQ(message("{{ 'a' < 1 }}"),
            "chat template, line 1: '<' not supported between instances of 'str' and 'int'");
  EXPECT_EQ(message("{{ [missing]|tojson }}"),
            "chat template, line 1: Object of type Undefined is not JSON serializable");
  EXPECT_EQ(message("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"),
            "chat template, line 1: macro 'm' takes not more than 1 argument(s)");
}

TEST(Errors, OtherTemplatesAreRefusedOnlyWhenReached) {
  EXPECT_EQ(message("{% if false %}{% include 'x' %}{% endif %}ok"), "rendered: ok");
  EXPECT_NE(message("\n{% import 'x' as y %}").find("line 2: 'import' is not available"),
            std::string::npos);
  EXPECT_NE(message("{{ '\\N{BULLET}' }}").find("named characters"), std::string::npos);
}

TEST(Errors, TheContextMustBeAnObject) {
  EXPECT_FALSE(ChatTemplate::parse("x").value().render(Json::array()).ok());
}

}  // namespace
}  // namespace mlxcel::text

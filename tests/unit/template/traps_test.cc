// Templates that made other engines fail (known traps A15, A16 and their kind).
#include <gtest/gtest.h>

#include "text/chat_template.h"

namespace mlxcel::text {
namespace {

Json context_of(const char* text) { return Json::parse(text).value(); }

std::string render(const std::string& source, const char* context = "{}") {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed.ok()) return "parse error: " + parsed.error().message();
  const auto text = parsed.value().render(context_of(context));
  return text.ok() ? text.value() : "error: " + text.error().message();
}

TEST(Traps, ReversedSliceOfMessages) {  // A15
  const char* source =
      "{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}\n"
      "{%- for message in messages[::-1] %}\n"
      "    {%- set index = (messages|length - 1) - loop.index0 %}\n"
      "    {%- if ns.multi_step_tool and message.role == \"user\" and "
      "not(message.content.startswith('<tool_response>'))"
      " %}\n"
      "        {%- set ns.multi_step_tool = false %}\n"
      "        {%- set ns.last_query_index = index %}\n"
      "    {%- endif %}\n"
      "{%- endfor %}\n"
      "{{- ns.last_query_index }}";
  const char* messages =
      R"({"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"},{"role":"tool","content":"c"}]})";
  EXPECT_EQ(render(source, messages), "1");
  EXPECT_EQ(render("{{ 'abc'[::-1] }}{{ [1,2,3][-1:0:-1] }}{{ (1,2,3)[5:-4:-2] }}"),
            "cba[3, 2](3, 1)");
}

TEST(Traps, TrainingBlocksAreTransparent) {  // A16
  const char* source =
      "{%- for m in messages -%}\n"
      "{%- if m.role == 'assistant' -%}\n"
      "{% generation %}\n{{ '<a>' + m.content }}\n{%- endgeneration -%}\n"
      "{%- else -%}{{ m.content }}{%- endif -%}\n"
      "{%- endfor -%}";
  EXPECT_EQ(
      render(source,
             R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"r"}]})"),
      "q<a>r");
  EXPECT_EQ(render("a {%- generation -%} b {%- endgeneration -%} c"), "abc");
}

TEST(Traps, KeysNamedLikeMethods) {
  // Dots find the method first, brackets the key.
  const char* context = R"({"m":{"items":"key","get":1,"values":[2]}})";
  EXPECT_EQ(render("{{ m['items'] }}{{ m['get'] }}{{ m['values'] }}", context), "key1[2]");
  EXPECT_EQ(render("{% for k, v in m.items() %}{{ k }};{% endfor %}", context),
            "items;get;values;");
}

TEST(Traps, ToolSchemasKeepTheirOrderAndTheirLetters) {  // A06
  const char* context =
      R"({"t":{"zeta":1,"alpha":{"b":"é<&>'\"","a":[]},"mid":1.0,"n":null,"y":true}})";
  EXPECT_EQ(render("{{ t|tojson }}", context),
            R"({"zeta": 1, "alpha": {"b": "é<&>'\"", "a": []}, "mid": 1.0, "n": null, "y": true})");
}

TEST(Traps, NothingOfTheDataIsATemplate) {
  EXPECT_EQ(render("{{ x }}", R"({"x":"{{ 7*7 }}{% raw %}{# #}"})"), "{{ 7*7 }}{% raw %}{# #}");
}

TEST(Traps, BrokenTextDoesNotBreakRendering) {
  const auto parsed = ChatTemplate::parse("[{{ x }}|{{ x|length }}|{{ x|tojson }}]");
  ASSERT_TRUE(parsed.ok());
  Json context = Json::object();
  context.set("x", Json(std::string("a\xff\xc3")));
  const auto text = parsed.value().render(context);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text.value(), "[a\uFFFD\uFFFD|3|\"a\uFFFD\uFFFD\"]");
  Json zero = Json::object();
  zero.set("x", Json(std::string("a\0b", 3)));
  EXPECT_EQ(parsed.value().render(zero).value(), std::string("[a\0b|3|\"a\\u0000b\"]", 18));
}

TEST(Traps, MutatingDataIsRefused) {
  EXPECT_NE(render("{{ x.append(1) }}", R"({"x":[]})").find("unsafe"), std::string::npos);
  EXPECT_NE(render("{{ x.update({}) }}", R"({"x":{}})").find("unsafe"), std::string::npos);
  EXPECT_NE(render("{{ ''.__class__.mro() }}").find("unsafe"), std::string::npos);
}

TEST(Traps, OneTemplateServesManyRenderings) {
  const auto parsed =
      ChatTemplate::parse("{% macro m(x) %}{{ x }}{% endmacro %}{{ m(a) }}{{ 'é'|upper }}");
  ASSERT_TRUE(parsed.ok());
  const ChatTemplate copy = parsed.value();
  EXPECT_EQ(copy.render(context_of(R"({"a":1})")).value(), "1É");
  EXPECT_EQ(parsed.value().render(context_of(R"({"a":"x"})")).value(), "xÉ");
  EXPECT_EQ(copy.source(), parsed.value().source());
}

}  // namespace
}  // namespace mlxcel::text

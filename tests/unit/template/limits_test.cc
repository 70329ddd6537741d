// A template can neither hang nor exhaust memory: every one of these ends quickly with an error.
#include <gtest/gtest.h>

#include <chrono>

#include "text/chat_template.h"

namespace mlxcel::text {
namespace {

Result<std::string> render(const std::string& source, const TemplateLimits& limits = {}) {
  const auto parsed = ChatTemplate::parse(source, limits);
  if (!parsed.ok()) return parsed.error();
  return parsed.value().render(Json::object());
}

class Hostile : public ::testing::TestWithParam<const char*> {};

TEST_P(Hostile, EndsWithALimit) {
  TemplateLimits limits;
  limits.max_steps = 2'000'000;
  limits.max_output_bytes = 4 << 20;
  limits.max_memory_bytes = 32 << 20;
  const auto start = std::chrono::steady_clock::now();
  const auto result = render(GetParam(), limits);
  ASSERT_FALSE(result.ok()) << "rendered " << result.value().size() << " bytes";
  EXPECT_NE(result.error().code(), Code::Internal) << result.error().message();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 20) << result.error().message();
}

INSTANTIATE_TEST_SUITE_P(
    Templates, Hostile,
    ::testing::Values(
        "{{ range(10**9)|list }}", "{{ range(0, 9223372036854775807, 1) }}",
        "{{ range(-9223372036854775807, 9223372036854775807) }}", "{{ 'a' * 10**9 }}",
        "{{ 'a' * 10**18 }}", "{{ [0] * 10**12 }}",
        "{{ ([0] * 100000)|map('string')|list * 1000 }}", "{{ 2 ** 10000 }}", "{{ 10 ** 100 }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{% macro f() %}{% call f() %}{% endcall %}{{ caller() }}{% endmacro %}{{ f() }}",
        "{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% "
        "endfor %}",
        "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% "
        "endfor %}",
        "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s|replace('x', "
        "'xxxx') %}{% endfor %}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% "
        "endfor %}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(1000) %}{% set ns.s = [ns.s] %}{% endfor "
        "%}{{ ns.s }}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(150) %}{% set ns.s = [ns.s, ns.s] %}{% "
        "endfor %}{{ ns.s }}",
        "{% set a = namespace(s=[1]) %}{% set b = namespace(s=[1]) %}{% for i in range(150) %}{% "
        "set a.s = [a.s, a.s] %}"
        "{% set b.s = [b.s, b.s] %}{% endfor %}{{ a.s == b.s }}",
        "{% set a = namespace(s=(1,)) %}{% for i in range(150) %}{% set a.s = (a.s, a.s) %}{% "
        "endfor %}{{ {a.s: 1} }}",
        "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns.me }}",
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% for i in range(100000) %}{% for j in range(100000) %}{{ i }}{% endfor %}{% endfor %}",
        "{{ '%1000000000d' % 1 }}", "{{ '%.1000000000f' % 1.0 }}", "{{ '%*d' % (1000000000, 1) }}",
        "{{ '{:1000000000}'.format(1) }}", "{{ '{:0999999999,}'.format(1) }}",
        "{{ '{:.999999999f}'.format(1.5) }}", "{{ 'a'.center(10**10) }}", "{{ 'a'.zfill(10**10) }}",
        "{{ 'a\tb'.expandtabs(10**10) }}", "{{ [[1]]|tojson(indent=10**9) }}",
        "{{ 'a'|indent(10**10, true) }}", "{{ [1]|batch(10**9, 0)|list }}",
        "{{ [1]|slice(10**12)|list }}", "{{ 'x'|center(10**9) }}",
        "{{ ('a' * 2000000).replace('', 'bbbb') }}", "{{ ('a' * 4000000)|list|length }}",
        "{{ ('\n' * 4000000).splitlines()|length }}",
        "{{ (('a' * 1000000 + 'b') * 3).rfind('a' * 1000000 + 'c' ) }}{{ range(10**9) }}",
        "{{ ('a' * 2000000).rsplit('a' * 999999 + 'b') }}{{ range(10**9) }}",
        "{{ dict.fromkeys(range(100000))|list|map('string')|list|join(',') * 1000 }}",
        "{% set ns = namespace(n=0) %}{% for i in range(100000) %}{% macro m() %}{% endmacro %}{% "
        "set ns.n = m %}"
        "{% for j in range(100) %}{% macro k() %}{% endmacro %}{% endfor %}{% endfor %}",
        "{{ ''.join(['ab' * 1000000] * 1000) }}",
        "{{ ['ab' * 1000000] * 100 | join }}{{ range(10**9) }}", "{{ ('&' * 4000000)|e|e|e }}",
        "{{ ('\\x00' * 4000000)|tojson }}", "{{ [('\\x00' * 4000000)] }}"));

TEST(Limits, LongConcatenationsAndDeepNesting) {
  std::string parens(100000, '('), nots, elifs = "{% if a %}", sums = "{{ 1";
  for (int i = 0; i < 20000; ++i) nots += "not ";
  for (int i = 0; i < 2000; ++i) elifs += "{% elif b %}";
  for (int i = 0; i < 100000; ++i) sums += " + 1";
  EXPECT_FALSE(render("{{ " + parens).ok());
  EXPECT_FALSE(render("{{ " + nots + "1 }}").ok());
  EXPECT_TRUE(render(elifs + "{% endif %}").ok());
  EXPECT_FALSE(render(sums + " }}").ok());
  std::string blocks, filters = "{{ 1", dots = "{{ a", lists = "{{ ";
  for (int i = 0; i < 5000; ++i) {
    blocks += "{% if true %}";
    filters += "|string";
    dots += ".a";
    lists += "[";
  }
  EXPECT_FALSE(render(blocks).ok());
  EXPECT_FALSE(render(filters + " }}").ok());
  EXPECT_FALSE(render(dots + " }}").ok());
  EXPECT_FALSE(render(lists + " }}").ok());
  EXPECT_FALSE(render("{{ " + std::string(5000, '-') + "1 }}").ok());
  EXPECT_FALSE(ChatTemplate::parse(std::string(ChatTemplate::kMaxSourceBytes + 1, 'x')).ok());
}

TEST(Limits, TheDeepestAllowedTemplateFitsTheStack) {
  std::string filters = "{{ 1", end;
  for (int i = 0; i < 400; ++i) filters += "|string";
  EXPECT_TRUE(render(filters + " }}").ok());
  EXPECT_TRUE(
      render(
          "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{{ n }}{% endmacro %}{{ f(60) }}")
          .ok());
  std::string nested;
  for (int i = 0; i < 120; ++i) {
    nested += "{% if true %}";
    end += "{% endif %}";
  }
  EXPECT_TRUE(render(nested + "x" + end).ok());
}

TEST(Limits, CodesTellLimitsFromFaults) {
  TemplateLimits limits;
  limits.max_steps = 100;
  EXPECT_EQ(render("{% for i in range(1000) %}{% endfor %}", limits).error().code(),
            Code::ResourceExhausted);
  limits = {};
  limits.max_output_bytes = 10;
  EXPECT_EQ(render("01234567890123456789", limits).error().code(), Code::ResourceExhausted);
  EXPECT_EQ(render("{{ 1 + 'a' }}").error().code(), Code::InvalidArgument);
  EXPECT_EQ(render("{% include 'x' %}").error().code(), Code::Unsupported);
}

TEST(Limits, OrdinaryWorkIsFarFromThem) {
  // A conversation of two thousand turns with a text of a megabyte.
  Json messages = Json::array();
  for (int i = 0; i < 2000; ++i) {
    Json message = Json::object();
    message.set("role", Json(i % 2 == 0 ? "user" : "assistant"));
    message.set("content", Json(std::string(500, 'x')));
    messages.push_back(std::move(message));
  }
  Json context = Json::object();
  context.set("messages", std::move(messages));
  const auto parsed = ChatTemplate::parse(
      "{% set ns = namespace(out='') %}{% for m in messages %}{% set ns.out = ns.out + '<' + "
      "m.role + '>' + "
      "m.content|trim %}{% endfor %}{{ ns.out }}");
  const auto text = parsed.value().render(context);
  ASSERT_TRUE(text.ok()) << text.error().message();
  EXPECT_GT(text.value().size(), 1'000'000U);
}

}  // namespace
}  // namespace mlxcel::text

// Every format of tool calls through the same situations: text around calls, two calls, Unicode,
// quotes and markers inside arguments, cut answers. Fed whole, byte by byte and in random pieces.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "text/tool_calls.h"

namespace mlxcel::text {
namespace {

Json tools() {
  return Json::parse(R"([{"type":"function","function":{"name":"find","parameters":{"type":"object",
    "properties":{"q":{"type":"string"},"n":{"type":"integer"},"deep":{"type":"object"},
    "tags":{"type":"array"},"on":{"type":"boolean"},"x":{"type":"number"}}}}}])")
      .value();
}

std::string python_text(const Json& v) {
  if (v.is_bool()) return v.as_bool() ? "True" : "False";
  if (v.is_null()) return "None";
  if (v.is_array()) {
    std::string out = "[";
    for (const Json& e : v.as_array()) out += (out.size() > 1 ? ", " : "") + python_text(e);
    return out + "]";
  }
  if (v.is_object()) {
    std::string out = "{";
    for (const auto& [k, e] : v.as_object()) {
      out += (out.size() > 1 ? ", " : "") + Json(k).dump() + ": " + python_text(e);
    }
    return out + "}";
  }
  return v.dump();
}
std::string python_call(const ToolCall& c) {
  std::string out = c.name + "(";
  const Json arguments = Json::parse(c.arguments).value();
  for (const auto& [k, v] : arguments.as_object()) {
    out += (out.back() == '(' ? "" : ", ") + k + "=" + python_text(v);
  }
  return out + ")";
}
std::string gemma_text(const Json& v) {
  if (v.is_string()) return "<|\"|>" + v.as_string() + "<|\"|>";
  if (!v.is_array() && !v.is_object()) return v.dump();
  std::string out = v.is_array() ? "[" : "{";
  for (size_t i = 0; i < v.size(); ++i) {
    if (i > 0) out += ",";
    if (v.is_object()) out += v.as_object()[i].first + ":";
    out += gemma_text(v.is_array() ? v.as_array()[i] : v.as_object()[i].second);
  }
  return out + (v.is_array() ? "]" : "}");
}
/// A value as formats without quotes write it.
std::string bare(const Json& v) { return v.is_string() ? v.as_string() : v.dump(); }

using Calls = std::vector<ToolCall>;
std::string joined(const Calls& calls, const std::string& between,
                   const std::function<std::string(const ToolCall&)>& one) {
  std::string out;
  for (const ToolCall& c : calls) out += (out.empty() ? "" : between) + one(c);
  return out;
}
std::string object(const ToolCall& c, const char* name, const char* arguments) {
  return fmt::format("{{\"{}\": \"{}\", \"{}\": {}}}", name, c.name, arguments, c.arguments);
}
std::string xml_parameters(const ToolCall& c, const char* form) {
  std::string out;
  const Json arguments = Json::parse(c.arguments).value();
  for (const auto& [k, v] : arguments.as_object()) {
    out += fmt::format(fmt::runtime(form), k, bare(v));
  }
  return out;
}

struct Format {
  const char* name;
  ToolFormat format;
  std::function<std::string(const Calls&)> write;
  bool at_start = false;  // calls are only calls at the beginning of an answer
  bool one_block = true;  // several calls need no text between them
};

const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {"hermes", ToolFormat::Hermes,
       [](const Calls& calls) {
         return joined(calls, "\n", [](const ToolCall& c) {
           return "<tool_call>\n" + object(c, "name", "arguments") + "\n</tool_call>";
         });
       }},
      {"generic", ToolFormat::Generic,
       [](const Calls& calls) {
         return joined(calls, "\n", [](const ToolCall& c) {
           return "<tool_call>" + object(c, "name", "arguments") + "</tool_call>";
         });
       }},
      {"qwen3-coder", ToolFormat::QwenCoder,
       [](const Calls& calls) {
         return joined(calls, "\n", [](const ToolCall& c) {
           return "<tool_call>\n<function=" + c.name + ">\n" +
                  xml_parameters(c, "<parameter={}>\n{}\n</parameter>\n") +
                  "</function>\n</tool_call>";
         });
       }},
      {"glm", ToolFormat::Glm,
       [](const Calls& calls) {
         return joined(calls, "\n", [](const ToolCall& c) {
           return "<tool_call>" + c.name + "\n" +
                  xml_parameters(c, "<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n") +
                  "</tool_call>";
         });
       }},
      {"llama3-json", ToolFormat::Llama3Json,
       [](const Calls& calls) {
         return joined(calls, "; ",
                       [](const ToolCall& c) { return object(c, "name", "parameters"); });
       },
       true},
      {"llama3-python-tag", ToolFormat::Llama3Json,
       [](const Calls& calls) {
         return "<|python_tag|>" + joined(calls, "; ", [](const ToolCall& c) {
                  return object(c, "name", "parameters");
                });
       }},
      {"llama3-pythonic", ToolFormat::Llama3Python,
       [](const Calls& calls) { return "[" + joined(calls, ", ", python_call) + "]"; }, true},
      {"mistral-v3", ToolFormat::Mistral,
       [](const Calls& calls) {
         return "[TOOL_CALLS] [" +
                joined(calls, ", ",
                       [](const ToolCall& c) { return object(c, "name", "arguments"); }) +
                "]";
       }},
      {"mistral-v13", ToolFormat::Mistral,
       [](const Calls& calls) {
         return joined(calls, "", [](const ToolCall& c) {
           return "[TOOL_CALLS]" + c.name + "[ARGS]" + c.arguments;
         });
       }},
      {"deepseek-v3", ToolFormat::DeepSeek,
       [](const Calls& calls) {
         return "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>" +
                joined(calls, "\n",
                       [](const ToolCall& c) {
                         return "<\uFF5Ctool\u2581call\u2581begin\uFF5C>function<"
                                "\uFF5Ctool\u2581sep\uFF5C>" +
                                c.name + "\n```json\n" + c.arguments +
                                "\n```<\uFF5Ctool\u2581call\u2581end\uFF5C>";
                       }) +
                "<\uFF5Ctool\u2581calls\u2581end\uFF5C>";
       }},
      {"deepseek-v3.1", ToolFormat::DeepSeek,
       [](const Calls& calls) {
         return "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>" +
                joined(calls, "",
                       [](const ToolCall& c) {
                         return "<\uFF5Ctool\u2581call\u2581begin\uFF5C>" + c.name +
                                "<\uFF5Ctool\u2581sep\uFF5C>" + c.arguments +
                                "<\uFF5Ctool\u2581call\u2581end\uFF5C>";
                       }) +
                "<\uFF5Ctool\u2581calls\u2581end\uFF5C>";
       }},
      {"gemma3", ToolFormat::Gemma3,
       [](const Calls& calls) {
         return "```tool_code\n" + joined(calls, "\n", python_call) + "\n```";
       }},
      {"gemma4", ToolFormat::Gemma4,
       [](const Calls& calls) {
         return joined(calls, "", [](const ToolCall& c) {
           return "<|tool_call>call:" + c.name + gemma_text(Json::parse(c.arguments).value()) +
                  "<tool_call|>";
         });
       }},
      {"harmony", ToolFormat::Harmony,
       [](const Calls& calls) {
         return joined(calls, "<|start|>assistant", [](const ToolCall& c) {
           return "<|channel|>commentary to=functions." + c.name + " <|constrain|>json<|message|>" +
                  c.arguments + "<|call|>";
         });
       }},
      {"granite", ToolFormat::Granite,
       [](const Calls& calls) {
         return "<|tool_call|>[" +
                joined(calls, ", ",
                       [](const ToolCall& c) { return object(c, "name", "arguments"); }) +
                "]";
       }},
      {"phi4", ToolFormat::Granite,
       [](const Calls& calls) {
         return "<|tool_call|>[" +
                joined(calls, ",",
                       [](const ToolCall& c) { return object(c, "name", "arguments"); }) +
                "]<|/tool_call|>";
       }},
      {"command-r", ToolFormat::CommandR,
       [](const Calls& calls) {
         return "Action: ```json\n[\n" +
                joined(calls, ",\n",
                       [](const ToolCall& c) { return object(c, "tool_name", "parameters"); }) +
                "\n]```";
       }},
      {"command-r7b", ToolFormat::CommandR,
       [](const Calls& calls) {
         return "<|START_ACTION|>[" +
                joined(calls, ",",
                       [](const ToolCall& c) { return object(c, "tool_name", "parameters"); }) +
                "]<|END_ACTION|>";
       }},
      {"kimi-k2", ToolFormat::KimiK2,
       [](const Calls& calls) {
         return "<|tool_calls_section_begin|>" +
                joined(calls, "",
                       [](const ToolCall& c) {
                         return "<|tool_call_begin|>functions." + c.name +
                                ":0<|tool_call_argument_begin|>" + c.arguments +
                                "<|tool_call_end|>";
                       }) +
                "<|tool_calls_section_end|>";
       }},
      {"lfm2", ToolFormat::Lfm2,
       [](const Calls& calls) {
         return "<|tool_call_start|>[" + joined(calls, ", ", python_call) + "]<|tool_call_end|>";
       }},
  };
  return all;
}

struct Parsed {
  std::string content;
  Calls calls;
  bool operator==(const Parsed&) const = default;
};

Parsed feed(ToolFormat format, const std::string& text, const std::function<size_t()>& size) {
  const auto parser = make_tool_call_parser(format, tools());
  Parsed out;
  const auto take = [&](ToolDelta d) {
    out.content += d.content;
    out.calls.insert(out.calls.end(), d.calls.begin(), d.calls.end());
  };
  for (size_t at = 0; at < text.size();) {
    const size_t n = std::min(size(), text.size() - at);
    take(parser->push(std::string_view(text).substr(at, n)));
    at += n;
  }
  take(parser->finish());
  for (ToolCall& c : out.calls) c.id.clear();
  return out;
}

/// Whole, byte by byte and in random pieces; all must agree.
Parsed parse(const Format& f, const std::string& text) {
  const Parsed whole = feed(f.format, text, [&] { return std::max<size_t>(text.size(), 1); });
  const Parsed bytes = feed(f.format, text, [] { return size_t{1}; });
  std::mt19937 random(5);
  const Parsed pieces = feed(f.format, text, [&] { return size_t{1} + random() % 9; });
  EXPECT_EQ(whole.content, bytes.content) << f.name << ": " << text;
  EXPECT_TRUE(whole == bytes && whole == pieces) << f.name << ": " << text;
  return whole;
}

class EveryFormat : public ::testing::TestWithParam<Format> {};

ToolCall find_call(const std::string& arguments) {
  return {"", "find", Json::parse(arguments).value().dump()};
}

void expect(const Format& f, const std::string& text, const std::string& content,
            const Calls& calls) {
  const Parsed got = parse(f, text);
  EXPECT_EQ(got.content, content) << text;
  ASSERT_EQ(got.calls.size(), calls.size()) << text;
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(got.calls[i].name, calls[i].name) << text;
    EXPECT_EQ(got.calls[i].arguments, calls[i].arguments) << text;
  }
}

TEST_P(EveryFormat, Situations) {
  const Format& f = GetParam();
  const ToolCall plain = find_call(R"({"q":"cats","n":3})");
  const ToolCall other = find_call(R"({"q":"dogs","on":true})");
  const ToolCall unicode = find_call("{\"q\":\"caf\u00e9 \u732b \U0001F408\"}");
  const ToolCall quotes = find_call(R"({"q":"she said \"it's\" \\ done"})");
  const ToolCall nested = find_call(R"({"deep":{"a":[1,{"b":"}]"}],"c":null},"tags":["x","y"]})");
  const ToolCall empty = find_call("{}");
  const ToolCall reals = find_call(R"({"x":-1.5,"n":0,"on":false})");
  const ToolCall lines = find_call(R"({"q":"one\ntwo\n\tthree"})");
  const ToolCall marked = find_call(R"({"q":"a <b> [c] {d} </e>"})");
  expect(f, f.write({plain}), "", {plain});
  expect(f, f.write({plain}) + "\n", "", {plain});
  expect(f, "\n" + f.write({plain}), f.at_start ? "" : "", {plain});
  expect(f, f.write({plain, other}), "", {plain, other});
  expect(f, f.write({unicode}), "", {unicode});
  expect(f, f.write({quotes}), "", {quotes});
  expect(f, f.write({nested}), "", {nested});
  expect(f, f.write({empty}), "", {empty});
  expect(f, f.write({reals}), "", {reals});
  expect(f, f.write({lines}), "", {lines});
  expect(f, f.write({marked}), "", {marked});
  expect(f, "Hello \u2603.", "Hello \u2603.", {});
  expect(f, "", "", {});
  if (!f.at_start) {
    expect(f, "Let me look.\n\n" + f.write({plain}), "Let me look.", {plain});
    expect(f, "One. " + f.write({plain}) + " Two. " + f.write({other}), "One. Two.",
           {plain, other});
    expect(f, "```\n" + f.write({plain}) + "\n```", "```\n```", {plain});
  }
}

// Wherever the answer is cut, nothing is lost: a call or its text.
TEST_P(EveryFormat, CutAnywhere) {
  const Format& f = GetParam();
  const ToolCall call = find_call(R"({"q":"cats","n":3})");
  const std::string text = f.write({call});
  for (size_t n = 0; n < text.size(); ++n) {
    const Parsed got = parse(f, text.substr(0, n));
    if (got.calls.empty()) {
      EXPECT_EQ(got.content, text.substr(0, n)) << f.name;
    } else {
      ASSERT_EQ(got.calls.size(), 1U);
      EXPECT_EQ(got.calls[0].arguments, call.arguments) << f.name << ": " << text.substr(0, n);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryFormat, ::testing::ValuesIn(formats()), [](const auto& format) {
  std::string name = format.param.name;
  for (char& c : name) c = c == '-' || c == '.' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace mlxcel::text

// Grammars of answers that may, or must, call tools.
#include <fmt/core.h>

#include <optional>

#include "text/grammar/builder.h"
#include "text/tool_calls.h"

namespace mlxcel::text {

namespace {

using Expr = GrammarBuilder::Expr;

/// How one format writes calls with JSON arguments. %n is the name.
struct Layout {
  ToolFormat format;
  std::string_view trigger;      // opens the calls in free text
  std::string_view before;       // behind the trigger, before the first call
  std::string_view open, close;  // around the arguments of one call
  std::string_view between;
  std::string_view after;
};

constexpr int32_t kMaxMoreCalls = 31;  // behind the first of one answer

constexpr Layout kLayouts[] = {
    {ToolFormat::Generic, "<tool_call>", "", "{\"name\": \"%n\", \"arguments\": ", "}",
     "\n</tool_call>\n<tool_call>\n", "\n</tool_call>"},
    {ToolFormat::Hermes, "<tool_call>", "", "{\"name\": \"%n\", \"arguments\": ", "}",
     "\n</tool_call>\n<tool_call>\n", "\n</tool_call>"},
    {ToolFormat::Llama3Json, "{\"name\": \"", "", "%n\", \"parameters\": ", "}", "; {\"name\": \"",
     ""},
    {ToolFormat::Mistral, "[TOOL_CALLS]", "[", "{\"name\": \"%n\", \"arguments\": ", "}", ", ",
     "]"},
    {ToolFormat::Mistral, "[TOOL_CALLS]", "", "%n[ARGS]", "", "[TOOL_CALLS]", ""},
    {ToolFormat::DeepSeek, "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>",
     "<\uFF5Ctool\u2581call\u2581begin\uFF5C>", "function<\uFF5Ctool\u2581sep\uFF5C>%n\n```json\n",
     "\n```<\uFF5Ctool\u2581call\u2581end\uFF5C>", "\n<\uFF5Ctool\u2581call\u2581begin\uFF5C>",
     "<\uFF5Ctool\u2581calls\u2581end\uFF5C>"},
    {ToolFormat::DeepSeek, "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>",
     "<\uFF5Ctool\u2581call\u2581begin\uFF5C>", "%n<\uFF5Ctool\u2581sep\uFF5C>",
     "<\uFF5Ctool\u2581call\u2581end\uFF5C>", "<\uFF5Ctool\u2581call\u2581begin\uFF5C>",
     "<\uFF5Ctool\u2581calls\u2581end\uFF5C>"},
    {ToolFormat::Granite, "<|tool_call|>", "[", "{\"name\": \"%n\", \"arguments\": ", "}", ", ",
     "]"},
    {ToolFormat::CommandR, "<|START_ACTION|>", "[", "{\"tool_name\": \"%n\", \"parameters\": ", "}",
     ", ", "]<|END_ACTION|>"},
};

std::string named(std::string_view pattern, std::string_view name) {
  std::string out(pattern);
  const size_t at = out.find("%n");
  return at == std::string::npos ? out : out.replace(at, 2, name);
}

Expr calls_of(GrammarBuilder& b, const Layout& layout, const Json& tools,
              const ToolChoice& choice) {
  std::vector<Expr> one;
  for (const Json& tool : tools.as_array()) {
    const Json* function = tool.find("function");
    if (function == nullptr) function = &tool;
    const Json* name = function->find("name");
    if (name == nullptr || !name->is_string()) {
      throw Error(Code::InvalidArgument, "tools: a function without a name");
    }
    if (!choice.name.empty() && name->as_string() != choice.name) continue;
    static const Json any = Json::object({{"type", "object"}});
    const Json* schema = function->find("parameters");
    bool open = schema == nullptr || schema->is_null() || schema->size() == 0;
    const Json* strict = function->find("strict");
    const bool must = strict != nullptr && strict->is_bool() && strict->as_bool();
    if (!open && !must) open = !Grammar::from_json_schema(*schema).ok();
    one.push_back(b.seq({b.literal(named(layout.open, name->as_string())),
                         b.json_schema(open ? any : *schema,
                                       fmt::format("tools.{}.parameters#", name->as_string())),
                         b.literal(layout.close)}));
  }
  if (one.empty()) {
    throw Error(Code::InvalidArgument,
                fmt::format("tool_choice: there is no tool named \"{}\"", choice.name));
  }
  const auto rule = b.declare("call");
  b.define(rule, b.alt(std::move(one)));
  const Expr call = b.call(rule);
  std::vector<Expr> parts{b.regex("[ \\n]?"), b.literal(layout.before), call};
  // Whoever names a tool wants one call of it. A small model would repeat a call to the limit.
  if (choice.parallel && choice.name.empty()) {
    parts.push_back(b.repeat(b.seq({b.literal(layout.between), call}), 0, kMaxMoreCalls));
  }
  parts.push_back(b.literal(layout.after));
  return b.seq(std::move(parts));
}

}  // namespace

Result<std::shared_ptr<const Grammar>> tool_grammar(ToolFormat format, const Json& tools,
                                                    const ToolChoice& choice) {
  const bool required = choice.mode == ToolChoice::Mode::Required;
  // Llama's calls are bare objects, which free text may hold too.
  const bool free = format == ToolFormat::Llama3Json && !required;
  if (free || !tools.is_array() || tools.size() == 0) return std::shared_ptr<const Grammar>();
  try {
    GrammarBuilder b;
    std::string trigger;
    std::vector<Expr> layouts;
    for (const Layout& l : kLayouts) {
      if (l.format != format) continue;
      trigger = l.trigger;
      layouts.push_back(calls_of(b, l, tools, choice));
    }
    if (layouts.empty()) return std::shared_ptr<const Grammar>();
    const Expr calls = b.alt(std::move(layouts));
    if (required) return b.build(b.seq({b.literal(trigger), calls}));
    return b.build(b.alt({b.free_text({trigger}), b.seq({b.free_until({trigger}), calls})}));
  } catch (const Error& e) {
    return e;
  }
}

}  // namespace mlxcel::text

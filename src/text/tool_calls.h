// Tool calls in generated text: the formats of published models, taken out of the text as it comes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer.h"

namespace mlxcel::text {

enum class ToolFormat : uint8_t {
  Generic,       // JSON objects with a name and arguments, bare or in <tool_call>
  Hermes,        // <tool_call>{"name": ..., "arguments": ...}</tool_call> (Hermes, Qwen 2.5/3)
  QwenCoder,     // <tool_call><function=f><parameter=p>...</parameter></function></tool_call>
  Glm,           // <tool_call>f<arg_key>p</arg_key><arg_value>...</arg_value></tool_call>
  Llama3Json,    // {"name": ..., "parameters": ...}, perhaps behind <|python_tag|>
  Llama3Python,  // [f(p=1), g(q="x")]
  Mistral,       // [TOOL_CALLS][{...}], [TOOL_CALLS]f[ARGS]{...} and [TOOL_CALLS]f[CALL_ID]...
  DeepSeek,      // <|tool calls begin|> ... with full-width bars (V3, V3.1, R1)
  Gemma3,        // ```tool_code f(p=1) ```
  Gemma4,        // <|tool_call>call:f{p:<|"|>x<|"|>}<tool_call|>
  Harmony,       // <|channel|>commentary to=functions.f ...<|message|>{...}<|call|> (gpt-oss)
  Granite,       // <|tool_call|>[{"name": ..., "arguments": ...}] (Granite 3, Phi-4-mini)
  CommandR,      // Action: ```json [...] ```, <|START_ACTION|>[...]<|END_ACTION|>
  KimiK2,        // <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{...}
  Lfm2,          // <|tool_call_start|>[f(p=1)]<|tool_call_end|>
};

struct ToolCall {
  std::string id;  // empty when the format has none
  std::string name;
  std::string arguments;  // the text of a JSON object
  bool operator==(const ToolCall&) const = default;
};

/// What a piece of text gave. Calls come whole: a call that turns out not to be one is content.
struct ToolDelta {
  std::string content;
  std::vector<ToolCall> calls;
  std::vector<size_t> places;  // of each call: how many bytes of the content come before it
};

/// Cutting the text elsewhere never changes what all deltas together say.
class ToolCallParser {
 public:
  virtual ~ToolCallParser() = default;
  virtual ToolDelta push(std::string_view text) = 0;
  /// The end of the text: calls whose end marker is missing count, anything else held back is
  /// content.
  virtual ToolDelta finish() = 0;
};

/// By what the template's source contains.
ToolFormat detect_tool_format(std::string_view template_source);
/// `tools`: the list of the request (OpenAI form), for the types of parameters that a format writes
/// without quotes.
std::unique_ptr<ToolCallParser> make_tool_call_parser(ToolFormat format, const Json& tools);
/// Special tokens of `tokenizer` that the format's calls are written with: they must become text,
/// and a grammar may spell them.
std::vector<TokenId> tool_marker_ids(ToolFormat format, const Tokenizer& tokenizer);

struct ToolChoice {
  enum class Mode : uint8_t { Auto, Required } mode = Mode::Auto;
  std::string name;      // only this tool
  bool parallel = true;  // several calls in one answer
};
/// The grammar of answers: free text and, behind the marker that opens a call, calls of `tools`
/// with arguments valid under their schemas; with Mode::Required a call from the start. Null for
/// formats that do not write arguments as JSON. InvalidArgument when the schema of a tool with
/// "strict": true cannot be enforced; the arguments of others are then any object.
Result<std::shared_ptr<const Grammar>> tool_grammar(ToolFormat format, const Json& tools,
                                                    const ToolChoice& choice);

}  // namespace mlxcel::text

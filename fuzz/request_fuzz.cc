// Bodies of generation requests. The first byte chooses the protocol, the rest is the body: every
// input must be read or refused with an Error.
#include <cstdint>
#include <memory>
#include <string_view>

#include "serve/wire/anthropic.h"
#include "serve/wire/chat.h"
#include "serve/wire/completion.h"
#include "serve/wire/infill.h"
#include "serve/wire/responses.h"

namespace {

using namespace mlxcel;
using text::TokenId;

/// One id a byte, then the markers of infill.
class ByteTokenizer final : public text::Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view utf8, const text::EncodeOptions&) const override {
    return {utf8.begin(), utf8.end()};
  }
  std::string decode(std::span<const TokenId> ids, bool) const override {
    return std::string(ids.size(), 'x');
  }
  std::string_view bytes(TokenId) const override { return "x"; }
  std::string_view token(TokenId) const override { return "x"; }
  std::optional<TokenId> id_of(std::string_view token) const override {
    if (token == "<|fim_prefix|>") return 256;
    if (token == "<|fim_suffix|>") return 257;
    if (token == "<|fim_middle|>") return 258;
    return std::nullopt;
  }
  bool is_special(TokenId id) const override { return id >= 256; }
  int32_t vocab_size() const override { return 259; }
  std::optional<TokenId> bos_id() const override { return std::nullopt; }
  std::optional<TokenId> eos_id() const override { return std::nullopt; }
  bool strips_leading_space() const override { return false; }
};

serve::ServerState make_state() {
  serve::ServerState state;
  state.model.tokenizer = std::make_shared<ByteTokenizer>();
  state.model.chat.template_source =
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if m.tool_calls %}"
      "{{ m.tool_calls | tojson }}{% endif %}{% endfor %}{{ tools | tojson }}<think>";
  serve::compile_template(state.model.chat);
  state.grammars = std::make_shared<text::GrammarCache>(state.model.tokenizer);
  const auto defaults = std::make_shared<const serve::RequestDefaults>();
  state.defaults = [defaults] { return defaults; };
  return state;
}

void read(uint8_t protocol, const Json& body, const serve::ServerState& state) {
  const auto none = [](const std::string&) -> const Json* { return nullptr; };
  const auto render = [&](serve::wire::ChatRequest request) {
    serve::wire::render(request, state.model.chat, *state.model.tokenizer);
    serve::wire::make_plan(request);
  };
  switch (protocol % 6) {
    case 0:
      serve::wire::make_plan(serve::wire::read_native_completion(body, state));
      break;
    case 1:
      serve::wire::make_plan(serve::wire::read_openai_completion(body, state));
      break;
    case 2:
      render(serve::wire::read_chat(body, state));
      break;
    case 3:
      render(serve::wire::read_responses(body, state, none, none).chat);
      break;
    case 4:
      render(serve::wire::read_anthropic(body, state));
      break;
    default:
      serve::wire::make_plan(serve::wire::read_infill(body, state));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const serve::ServerState state = make_state();
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    read(data[0], serve::wire::parse_body(body).value(), state);
  } catch (const Error&) {  // refused
  }
  return 0;
}

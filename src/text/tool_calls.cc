#include "text/tool_calls.h"

#include <algorithm>

#include "text/reasoning_harmony.h"
#include "text/tool_scan.h"
#include "text/tool_values.h"

namespace mlxcel::text {

namespace {

using tools::Opener;
using tools::Scan;

class BlockParser final : public ToolCallParser {
 public:
  BlockParser(std::vector<Opener> openers, Json tools)
      : openers_(std::move(openers)), tools_(std::move(tools)) {}

  ToolDelta push(std::string_view text) override {
    buffer_ += text;
    return run(false);
  }
  ToolDelta finish() override { return run(true); }

 private:
  ToolDelta run(bool final) {
    ToolDelta out;
    while (true) {
      if (block_ != nullptr) {
        if (!read_block(out, final)) break;
      } else if (!read_text(out, final)) {
        break;
      }
    }
    return out;
  }

  // False when more text is needed.
  bool read_block(ToolDelta& out, bool final) {
    Scan scan = block_->scan(buffer_, final, tools_);
    if (scan.state == Scan::State::More && !final) return false;
    const std::string_view marker = block_->marker;
    block_ = nullptr;
    if (scan.state == Scan::State::Done) {
      out.places.resize(out.places.size() + scan.calls.size(), out.content.size());
      for (ToolCall& c : scan.calls) out.calls.push_back(std::move(c));
      blanks_.clear();  // white space beside a call belongs to it
      after_call_ = true;
      buffer_.erase(0, scan.end);
      return true;
    }
    // Not a call after all: the marker is text, and what follows is looked at again.
    add_text(out, marker);
    buffer_.erase(0, marker.size());
    return true;
  }

  bool read_text(ToolDelta& out, bool final) {
    size_t at = std::string::npos;
    const Opener* opener = nullptr;
    for (const Opener& o : openers_) {
      size_t found = buffer_.find(o.marker);
      if (o.at_start) {
        const size_t first = tools::skip_space(buffer_, 0);
        found = blank_ && first < buffer_.size() && buffer_.compare(first, 1, o.marker) == 0
                    ? first
                    : std::string::npos;
      }
      const bool longer =
          opener != nullptr && found == at && o.marker.size() > opener->marker.size();
      if (found < at || (found != std::string::npos && longer)) {
        at = found;
        opener = &o;
      }
    }
    if (opener != nullptr) {
      add_text(out, std::string_view(buffer_).substr(0, at));
      buffer_.erase(0, at);
      block_ = opener;
      return true;
    }
    size_t held = 0;
    if (!final) {
      for (const Opener& o : openers_) held = std::max(held, partial_marker(buffer_, o.marker));
    }
    add_text(out, std::string_view(buffer_).substr(0, buffer_.size() - held));
    buffer_.erase(0, buffer_.size() - held);
    if (final && !after_call_) out.content += std::exchange(blanks_, {});
    return false;
  }

  // White space waits: before a call it is dropped.
  void add_text(ToolDelta& out, std::string_view text) {
    size_t end = text.size();
    while (end > 0 && tools::skip_space(text.substr(end - 1, 1), 0) == 1) --end;
    if (end > 0) {
      if (!after_call_ || !blank_) out.content += blanks_;
      blanks_.clear();
      out.content += text.substr(0, end);
      blank_ = false;
      after_call_ = false;
    }
    blanks_ += text.substr(end);
  }

  const std::vector<Opener> openers_;
  const Json tools_;
  std::string buffer_, blanks_;
  const Opener* block_ = nullptr;  // in openers_
  bool blank_ = true, after_call_ = false;
};

}  // namespace

std::unique_ptr<ToolCallParser> make_tool_call_parser(ToolFormat format, const Json& tools) {
  return std::make_unique<BlockParser>(tools::openers_of(format), tools);
}

ToolFormat detect_tool_format(std::string_view source) {
  struct Probe {
    std::string_view text;
    ToolFormat format;
  };
  // The most telling marks first.
  static constexpr Probe kProbes[] = {
      {"<|tool_calls_section_begin|>", ToolFormat::KimiK2},
      {"tool\u2581call\u2581begin", ToolFormat::DeepSeek},
      {"<|tool_call>", ToolFormat::Gemma4},
      {"<|tool_call_start|>", ToolFormat::Lfm2},
      {"List of tools: [", ToolFormat::Lfm2},
      {"<arg_key>", ToolFormat::Glm},
      {"<function=", ToolFormat::QwenCoder},
      {"[TOOL_CALLS]", ToolFormat::Mistral},
      {"<|START_ACTION|>", ToolFormat::CommandR},
      {"Action:", ToolFormat::CommandR},
      {"<tool_call>", ToolFormat::Hermes},
      {"<|tool_call|>", ToolFormat::Granite},
      {"```tool_code", ToolFormat::Gemma3},
      {"<|python_tag|>", ToolFormat::Llama3Json},
      {"func_name1(", ToolFormat::Llama3Python},
      {"\"parameters\": dictionary of argument name", ToolFormat::Llama3Json},
  };
  if (is_harmony_template(source)) return ToolFormat::Harmony;
  for (const Probe& p : kProbes) {
    if (source.find(p.text) != std::string_view::npos) return p.format;
  }
  return ToolFormat::Generic;
}

std::vector<TokenId> tool_marker_ids(ToolFormat format, const Tokenizer& tokenizer) {
  static constexpr std::string_view kMarkers[] = {
      "<tool_call>",
      "</tool_call>",
      "<|python_tag|>",
      "[TOOL_CALLS]",
      "[CALL_ID]",
      "[ARGS]",
      "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>",
      "<\uFF5Ctool\u2581calls\u2581end\uFF5C>",
      "<\uFF5Ctool\u2581call\u2581begin\uFF5C>",
      "<\uFF5Ctool\u2581call\u2581end\uFF5C>",
      "<\uFF5Ctool\u2581sep\uFF5C>",
      "<|tool_call>",
      "<tool_call|>",
      "<|\"|>",
      "<|channel|>",
      "<|start|>",
      "<|message|>",
      "<|constrain|>",
      "<|tool_call|>",
      "<|/tool_call|>",
      "<|START_ACTION|>",
      "<|END_ACTION|>",
      "<|tool_calls_section_begin|>",
      "<|tool_calls_section_end|>",
      "<|tool_call_begin|>",
      "<|tool_call_argument_begin|>",
      "<|tool_call_end|>",
      "<|tool_call_start|>",
      "<arg_key>",
      "</arg_key>",
      "<arg_value>",
      "</arg_value>",
  };
  std::vector<TokenId> ids;
  if (format == ToolFormat::Gemma3 || format == ToolFormat::Generic) return ids;
  for (const std::string_view marker : kMarkers) {
    const std::optional<TokenId> id = tokenizer.id_of(marker);
    if (id && tokenizer.is_special(*id)) ids.push_back(*id);
  }
  return ids;
}

}  // namespace mlxcel::text

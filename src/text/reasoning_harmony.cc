#include "text/reasoning_harmony.h"

#include <algorithm>
#include <array>
#include <string>

namespace mlxcel::text {

namespace {

constexpr std::string_view kStart = "<|start|>", kChannel = "<|channel|>", kMessage = "<|message|>",
                           kRecipient = "to=";
constexpr std::array<std::string_view, 3> kEnds = {"<|end|>", "<|return|>", "<|call|>"};
constexpr size_t kMaxHeader = 4096;  // longer headers are no headers

class HarmonyParser final : public ReasoningParser {
 public:
  explicit HarmonyParser(std::string_view prompt) {
    // The prompt ends inside a message that generation continues: replay what it has of it.
    const size_t start = prompt.rfind(kStart);
    if (start == std::string_view::npos) return;
    const std::string_view open = prompt.substr(start);
    // A bare role says nothing yet: what comes may be a channel, a recipient or plain text.
    if (open.find(kChannel) != std::string_view::npos ||
        open.find(kMessage) != std::string_view::npos) {
      run(std::string(open), false);
    }
  }

  ReasoningDelta push(std::string_view text) override { return run(std::string(text), false); }
  ReasoningDelta finish() override { return run("", true); }
  bool needs_special_text() const override { return true; }
  bool inside() const override { return state_ == State::Body && kind_ == Kind::Reasoning; }
  std::string closing() const override {
    return "<|end|><|start|>assistant<|channel|>final<|message|>";
  }

 private:
  enum class State : uint8_t { Between, Header, Body };

  ReasoningDelta run(const std::string& text, bool last) {
    pending_ += text;
    ReasoningDelta out;
    while (step(out, last)) {
    }
    if (last) {
      if (state_ == State::Body || state_ == State::Between) emit(out, pending_);
      pending_.clear();
    }
    return out;
  }

  bool step(ReasoningDelta& out, bool last) {
    switch (state_) {
      case State::Between:
        return between(out, last);
      case State::Header:
        return header();
      default:
        return body(out);
    }
  }

  /// Between messages there is nothing but a start, or a channel when the start was the prompt's.
  bool between(ReasoningDelta& out, bool last) {
    if (pending_.empty()) return false;
    for (const std::string_view marker : {kStart, kChannel, kMessage, kRecipient}) {
      if (pending_.starts_with(marker)) {
        header_.clear();
        state_ = State::Header;
        return true;
      }
      if (!last && marker.starts_with(pending_)) return false;
    }
    if (pending_[0] == '\n' || pending_[0] == ' ') {
      pending_.erase(0, 1);
      return true;
    }
    kind_ = Kind::Content;  // text without any markup is an answer
    state_ = State::Body;
    (void)out;
    return true;
  }

  bool header() {
    const size_t at = pending_.find(kMessage);
    if (at == std::string::npos) {
      if (pending_.size() <= kMaxHeader) return false;
      kind_ = Kind::Content;
      state_ = State::Body;
      return true;
    }
    header_ = pending_.substr(0, at + kMessage.size());
    pending_.erase(0, header_.size());
    const size_t channel = header_.rfind(kChannel);
    const std::string_view name = channel == std::string::npos
                                      ? std::string_view()
                                      : std::string_view(header_).substr(channel + kChannel.size());
    if (header_.find("to=") != std::string::npos) {
      kind_ = Kind::Tool;
    } else {
      kind_ = name.starts_with("analysis") ? Kind::Reasoning : Kind::Content;
    }
    opened_ = false;
    state_ = State::Body;
    return true;
  }

  bool body(ReasoningDelta& out) {
    size_t at = std::string::npos, length = 0;
    for (const std::string_view marker : {kEnds[0], kEnds[1], kEnds[2], kStart}) {
      const size_t found = pending_.find(marker);
      if (found < at) {
        at = found;
        length = marker == kStart ? 0 : marker.size();
      }
    }
    if (at == std::string::npos) {
      size_t held = 0;
      for (const std::string_view marker : {kEnds[0], kEnds[1], kEnds[2], kStart}) {
        held = std::max(held, partial_marker(pending_, marker));
      }
      emit(out, pending_.substr(0, pending_.size() - held));
      pending_.erase(0, pending_.size() - held);
      return false;
    }
    emit(out, pending_.substr(0, at));
    if (kind_ == Kind::Tool) out.content += pending_.substr(at, length);
    pending_.erase(0, at + length);
    state_ = State::Between;
    return true;
  }

  void emit(ReasoningDelta& out, const std::string& text) {
    if (text.empty()) return;
    if (kind_ == Kind::Reasoning) {
      out.reasoning += text;
      return;
    }
    if (kind_ == Kind::Tool && !opened_) {
      // The tool's name may stand before or after the channel.
      const size_t begin = std::min(header_.find(kChannel), header_.find(kRecipient));
      out.content += header_.substr(std::min(begin, header_.size()));
    }
    opened_ = true;
    out.content += text;
  }

  enum class Kind : uint8_t { Content, Reasoning, Tool };
  State state_ = State::Between;
  Kind kind_ = Kind::Content;
  bool opened_ = false;  // the header of a tool message has been written
  std::string pending_, header_;
};

}  // namespace

size_t partial_marker(std::string_view text, std::string_view marker) {
  for (size_t n = std::min(text.size(), marker.size() - 1); n > 0; --n) {
    if (text.ends_with(marker.substr(0, n))) return n;
  }
  return 0;
}

bool is_harmony_template(std::string_view source) {
  return source.find(kChannel) != std::string_view::npos &&
         source.find(kMessage) != std::string_view::npos;
}

std::unique_ptr<ReasoningParser> make_harmony_parser(std::string_view rendered_prompt) {
  return std::make_unique<HarmonyParser>(rendered_prompt);
}

}  // namespace mlxcel::text

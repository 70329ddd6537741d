#include "text/reasoning.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <vector>

#include "text/reasoning_harmony.h"

namespace mlxcel::text {

namespace {

struct Dialect {
  std::string_view probe;  // what the template's source must contain
  std::string_view open, close;
  bool special = false;   // the markers are special tokens: they count anywhere in the text
  bool has_name = false;  // a name and a line end follow the open marker
  std::array<std::string_view, 4> hidden = {};  // markers around the answer, dropped
};

constexpr Dialect kDialects[] = {
    {"<|channel>", "<|channel>", "<channel|>", true, true, {}},
    {"<|START_THINKING|>",
     "<|START_THINKING|>",
     "<|END_THINKING|>",
     true,
     false,
     {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"}},
    {"[THINK]", "[THINK]", "[/THINK]", true, false, {}},
    {"<seed:think>", "<seed:think>", "</seed:think>", false, false, {}},
    {"\u25C1think\u25B7", "\u25C1think\u25B7", "\u25C1/think\u25B7", false, false, {}},
    {"[BEGIN FINAL RESPONSE]",
     "Here are my reasoning steps:",
     "[BEGIN FINAL RESPONSE]",
     false,
     false,
     {"[END FINAL RESPONSE]"}},
    {"<thought>", "<thought>", "</thought>", false, false, {}},
    {"<answer>", "<think>", "</think>", false, false, {"<answer>", "</answer>"}},
    {"<response>", "<think>", "</think>", false, false, {"<response>", "</response>"}},
    // The last one is for every other template: fine-tunes think without telling it.
    {"", "<think>", "</think>", false, false, {}},
};

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

size_t leading_space(std::string_view text) {
  return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_space) - text.begin());
}

/// True when `prompt` ends inside a block: opened, not closed, and no new turn since.
bool ends_inside(std::string_view prompt, const Dialect& dialect) {
  const size_t open = prompt.rfind(dialect.open);
  if (open == std::string_view::npos) return false;
  const std::string_view rest = prompt.substr(open + dialect.open.size());
  if (rest.find(dialect.close) != std::string_view::npos) return false;
  static constexpr std::string_view kTurns[] = {"<|",
                                                "|>",
                                                "<\uFF5C",
                                                "[INST]",
                                                "[/INST]",
                                                "</s>",
                                                "<start_of_turn>",
                                                "<end_of_turn>",
                                                "<turn|>",
                                                "<|turn>",
                                                "### "};
  return std::none_of(std::begin(kTurns), std::end(kTurns), [&](std::string_view marker) {
    return rest.find(marker) != std::string_view::npos;
  });
}

class SpanParser final : public ReasoningParser {
 public:
  SpanParser(const Dialect& dialect, bool inside) : dialect_(dialect) {
    if (inside) {
      state_ = State::Reasoning;
      fresh_ = true;
    }
  }

  ReasoningDelta push(std::string_view text) override {
    pending_ += text;
    return run(false);
  }
  ReasoningDelta finish() override { return run(true); }
  bool needs_special_text() const override { return dialect_.special; }
  bool inside() const override { return state_ != State::Content; }
  std::string closing() const override {
    return dialect_.special ? std::string(dialect_.close) : fmt::format("\n{}\n\n", dialect_.close);
  }

 private:
  enum class State : uint8_t { Content, Name, Reasoning };

  ReasoningDelta run(bool last) {
    ReasoningDelta out;
    bool more = true;
    while (more && !pending_.empty()) {
      switch (state_) {
        case State::Content:
          more = content(out, last);
          break;
        case State::Name:
          more = name(last);
          break;
        default:
          more = reasoning(out, last);
      }
    }
    if (last) space_.clear();
    return out;
  }

  /// The first of the markers in the pending text.
  struct Hit {
    size_t at = std::string::npos;
    std::string_view marker;
  };
  Hit find(const std::vector<std::string_view>& markers) const {
    Hit hit;
    for (const std::string_view marker : markers) {
      const size_t at = pending_.find(marker);
      if (at < hit.at) hit = {at, marker};
    }
    return hit;
  }

  /// Bytes at the end that may yet become one of the markers.
  size_t held_back(const std::vector<std::string_view>& markers, bool last) const {
    size_t held = 0;
    for (const std::string_view marker : markers) {
      if (!last) held = std::max(held, partial_marker(pending_, marker));
    }
    return held;
  }

  bool content(ReasoningDelta& out, bool last) {
    std::vector<std::string_view> markers;
    for (const std::string_view marker : dialect_.hidden) {
      if (!marker.empty()) markers.push_back(marker);
    }
    // A plain-text marker counts only where an answer begins; later it is quoted text.
    if (dialect_.special || fresh_) {
      markers.push_back(dialect_.open);
      markers.push_back(dialect_.close);
    }
    Hit hit = find(markers);
    if (fresh_ && !dialect_.special && hit.at != std::string::npos &&
        (hit.marker == dialect_.open || hit.marker == dialect_.close) &&
        leading_space(pending_) < hit.at) {
      hit = {};
    }
    if (fresh_) {
      const size_t space = leading_space(pending_);
      if (hit.at == std::string::npos || space < hit.at) {
        const std::string_view rest = std::string_view(pending_).substr(space);
        const bool undecided =
            !last &&
            (rest.empty() || std::any_of(markers.begin(), markers.end(), [&](std::string_view m) {
               return m.starts_with(rest) && m.size() > rest.size();
             }));
        if (undecided) return false;
        // White space after a marker goes with it; before a whole answer it is the answer's own.
        if (after_marker_) pending_.erase(0, space);
        fresh_ = false;
        return true;
      }
    }
    if (hit.at != std::string::npos) {
      if (!fresh_) out.content += pending_.substr(0, hit.at);
      pending_.erase(0, hit.at + hit.marker.size());
      fresh_ = after_marker_ = true;
      if (hit.marker == dialect_.open) {
        state_ = dialect_.has_name ? State::Name : State::Reasoning;
        space_.clear();
      }
      return true;
    }
    const size_t keep = held_back(markers, last);
    out.content += pending_.substr(0, pending_.size() - keep);
    pending_.erase(0, pending_.size() - keep);
    return false;
  }

  /// Skips the channel's name up to the end of its line.
  bool name(bool last) {
    const size_t line = pending_.find('\n'), close = pending_.find(dialect_.close);
    if (line == std::string::npos && close == std::string::npos) {
      if (last) pending_.clear();
      return false;
    }
    pending_.erase(0, line < close ? line + 1 : close);
    state_ = State::Reasoning;
    fresh_ = true;
    return true;
  }

  bool reasoning(ReasoningDelta& out, bool last) {
    const std::vector<std::string_view> markers = {dialect_.close, dialect_.open};
    if (fresh_) {
      pending_.erase(0, leading_space(pending_));
      if (pending_.empty()) return false;
      // Some models repeat the marker that the template has already written.
      if (pending_.starts_with(dialect_.open)) {
        pending_.erase(0, dialect_.open.size());
        return true;
      }
      if (!last && (dialect_.open.starts_with(pending_) || dialect_.close.starts_with(pending_)) &&
          pending_ != dialect_.close) {
        return false;
      }
      fresh_ = false;
    }
    const size_t at = pending_.find(dialect_.close);
    if (at != std::string::npos) {
      emit_reasoning(out, pending_.substr(0, at));
      space_.clear();
      pending_.erase(0, at + dialect_.close.size());
      state_ = State::Content;
      fresh_ = after_marker_ = true;
      return true;
    }
    const size_t keep = held_back({dialect_.close}, last);
    emit_reasoning(out, pending_.substr(0, pending_.size() - keep));
    pending_.erase(0, pending_.size() - keep);
    return false;
  }

  /// White space waits for more text, because it is dropped before the closing marker.
  void emit_reasoning(ReasoningDelta& out, std::string text) {
    size_t end = text.size();
    while (end > 0 && is_space(text[end - 1])) --end;
    if (end > 0) {
      out.reasoning += space_ + text.substr(0, end);
      space_.clear();
    }
    space_ += text.substr(end);
  }

  Dialect dialect_;
  State state_ = State::Content;
  bool fresh_ = true;          // nothing but white space since the start or the last marker
  bool after_marker_ = false;  // a marker has been seen
  std::string pending_, space_;
};

}  // namespace

namespace {

const Dialect& dialect_of(std::string_view template_source) {
  const auto* const found =
      std::find_if(std::begin(kDialects), std::end(kDialects), [&](const Dialect& d) {
        return template_source.find(d.probe) != std::string_view::npos &&
               template_source.find(d.close) != std::string_view::npos;
      });
  return found == std::end(kDialects) ? *std::prev(found) : *found;
}

}  // namespace

std::string reasoning_end(std::string_view template_source, std::string_view rendered_prompt) {
  if (is_harmony_template(template_source)) return "<|channel|>final<|message|>";
  const Dialect& dialect = dialect_of(template_source);
  return ends_inside(rendered_prompt, dialect) ? std::string(dialect.close) : std::string();
}

std::unique_ptr<ReasoningParser> make_reasoning_parser(std::string_view template_source,
                                                       std::string_view rendered_prompt) {
  if (is_harmony_template(template_source)) return make_harmony_parser(rendered_prompt);
  const Dialect& dialect = dialect_of(template_source);
  return std::make_unique<SpanParser>(dialect, ends_inside(rendered_prompt, dialect));
}

}  // namespace mlxcel::text

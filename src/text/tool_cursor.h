// A reader of tool-call blocks that knows the difference between wrong and not yet complete.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tool_scan.h"
#include "text/tool_values.h"

namespace mlxcel::text::tools {

/// Walks a block. Once something is missing or wrong, every further step does nothing.
class Cursor {
 public:
  Cursor(std::string_view text, bool final, std::string_view marker)
      : text_(text), final_(final), at_(marker.size()) {}

  bool ok() const { return state_ == Scan::State::Done; }
  bool at_end() const { return at_ >= text_.size(); }
  bool final() const { return final_; }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  std::string_view rest() const { return text_.substr(at_); }
  void space() {
    if (ok()) at_ = skip_space(text_, at_);
  }
  void need_more() {
    if (ok()) state_ = final_ ? Scan::State::Bad : Scan::State::More;
  }
  void fail() {
    if (ok()) state_ = Scan::State::Bad;
  }
  /// Takes `marker` if it is next. Waits when the text ends inside it.
  bool take(std::string_view marker) {
    if (!ok()) return false;
    if (rest().starts_with(marker)) {
      at_ += marker.size();
      return true;
    }
    if (marker.starts_with(rest()) && !final_) state_ = Scan::State::More;
    return false;
  }
  void expect(std::string_view marker) {
    if (ok() && !take(marker)) {
      at_end() ? need_more() : fail();
    }
  }
  /// White space and `marker`, where a text that was cut short may lack it.
  void close(std::string_view marker) {
    if (!ok()) return;
    const size_t before = at_;
    space();
    if (at_end() && !final_) return need_more();
    if (!take(marker) && ok()) at_ = before;
  }
  /// The same for the first of several that is there.
  void close_any(std::initializer_list<std::string_view> markers) {
    if (!ok()) return;
    const size_t before = at_;
    space();
    if (at_end() && !final_) return need_more();
    for (const std::string_view marker : markers) {
      if (take(marker) || !ok()) return;
    }
    at_ = before;
  }
  /// Takes a ';' and the white space around it. Waits at the end of the text: one may follow.
  bool separator() {
    if (!ok()) return false;
    const size_t next = skip_space(text_, at_);
    if (next >= text_.size() && !final_) need_more();
    if (next >= text_.size() || text_[next] != ';') return false;
    at_ = skip_space(text_, next + 1);
    if (at_end() && !final_) need_more();
    return ok() && !at_end();
  }
  /// The text up to `marker`, which is taken too.
  std::string_view until(std::string_view marker) {
    if (!ok()) return {};
    const size_t found = text_.find(marker, at_);
    if (found == std::string_view::npos) {
      need_more();
      return {};
    }
    const std::string_view out = text_.substr(at_, found - at_);
    at_ = found + marker.size();
    return out;
  }
  /// A balanced JSON (or Python) object or list.
  std::string_view value(bool python = false) {
    if (!ok()) return {};
    const size_t end = python ? bracket_end(text_, at_) : json_end(text_, at_);
    if (end == kMore) {
      need_more();
      return {};
    }
    if (end == kBad) {
      fail();
      return {};
    }
    const std::string_view out = text_.substr(at_, end - at_);
    at_ = end;
    return out;
  }
  std::string_view name() {
    if (!ok()) return {};
    const size_t begin = at_;
    while (!at_end()) {
      const char c = text_[at_];
      const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
      if (!fits) break;
      ++at_;
    }
    if (at_ == begin) at_end() ? need_more() : fail();
    return text_.substr(begin, at_ - begin);
  }

  void add(std::optional<std::vector<ToolCall>> calls) {
    if (!ok()) return;
    if (!calls) return fail();
    calls_.insert(calls_.end(), calls->begin(), calls->end());
    last_call_ = at_;
  }
  /// A call with `arguments` in JSON.
  void add(std::string_view name, std::string_view arguments, std::string_view id = {}) {
    if (!ok()) return;
    const std::string text(arguments.empty() ? "{}" : arguments);
    const Result<Json> json = Json::parse(text);
    if (name.empty() || !json.ok() || !json.value().is_object()) return fail();
    calls_.push_back({std::string(id), std::string(name), json.value().dump()});
    last_call_ = at_;
  }

  Scan result() {
    if (ok() && calls_.empty()) fail();
    // What is wrong behind whole calls does not undo them.
    if (state_ == Scan::State::Bad && !calls_.empty())
      return {Scan::State::Done, last_call_, std::move(calls_)};
    return {state_, at_, std::move(calls_)};
  }

 private:
  std::string_view text_;
  bool final_;
  size_t at_;
  Scan::State state_ = Scan::State::Done;
  size_t last_call_ = 0;  // where the last one ended
  std::vector<ToolCall> calls_;
};

}  // namespace mlxcel::text::tools

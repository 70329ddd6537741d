#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/core.h>
#include <pcre2.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "text/unicode.h"

namespace mlxcel::text {
namespace {

constexpr uint32_t kMatchLimit = 10'000'000;
constexpr size_t kMaxPatternBytes = 64 << 10;
constexpr uint32_t kHeapLimitKiB = 64 << 10;

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// Each match is bounded by the step limit; the deadline bounds the sum of all in one text.
thread_local int64_t deadline_ns = INT64_MAX;
thread_local uint32_t matches_done = 0;

struct CodeFree {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
};
struct MatchDataFree {
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};
struct MatchContextFree {
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};
struct JitStackFree {
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};

// Working memory of matching; one per thread because compiled patterns are shared.
struct ThreadState {
  std::unique_ptr<pcre2_match_data, MatchDataFree> data{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, MatchContextFree> context{
      pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, JitStackFree> stack{
      pcre2_jit_stack_create(32 << 10, 8 << 20, nullptr)};

  ThreadState() {
    if (!data || !context) throw std::bad_alloc();
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_set_heap_limit(context.get(), kHeapLimitKiB);
    if (stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

std::string error_text(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

class PcrePattern final : public Pattern {
 public:
  explicit PcrePattern(std::string_view pattern) : source_(pattern) {
    const std::string translated = oniguruma_to_pcre2(pattern);
    int error = 0;
    PCRE2_SIZE offset = 0;
    constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                              kOptions, &error, &offset, nullptr));
    if (!code_) {
      throw Error(Code::InvalidArgument,
                  fmt::format("regular expression \"{}\": {} (at byte {} of \"{}\")", source_,
                              error_text(error), offset, translated));
    }
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without JIT it is only slower
  }

  bool find(std::string_view text, size_t from, Match& match) const override {
    thread_local ThreadState state;
    if ((++matches_done & 15) == 0 && deadline_ns != INT64_MAX && now_ns() > deadline_ns) {
      throw Error(Code::ResourceExhausted,
                  fmt::format("the regular expression \"{}\" of the tokenizer is too slow on this "
                              "text",
                              source_));
    }
    const int rc = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                               from, PCRE2_NO_UTF_CHECK, state.data.get(), state.context.get());
    if (rc == PCRE2_ERROR_NOMATCH) return false;
    if (rc < 0) {
      throw Error(Code::ResourceExhausted,
                  fmt::format("matching the regular expression \"{}\" of the tokenizer failed at "
                              "byte {}: {}",
                              source_, from, error_text(rc)));
    }
    const PCRE2_SIZE* ovector = pcre2_get_ovector_pointer(state.data.get());
    // \K inside a lookahead can put the start behind the end.
    match = {std::min(ovector[0], ovector[1]), ovector[1]};
    return true;
  }

 private:
  std::string source_;
  std::unique_ptr<pcre2_code, CodeFree> code_;
};

class Literal final : public Pattern {
 public:
  explicit Literal(std::string_view text) : text_(text) {}
  bool find(std::string_view text, size_t from, Match& match) const override {
    if (text_.empty()) return false;
    const size_t at = text.find(text_, from);
    if (at == std::string_view::npos) return false;
    match = {at, at + text_.size()};
    return true;
  }

 private:
  std::string text_;
};

}  // namespace

RegexBudget::RegexBudget(size_t text_bytes) : previous_(deadline_ns) {
  constexpr int64_t kBaseNs = 10'000'000'000, kNsPerByte = 2'000;
  if (previous_ == INT64_MAX) {
    deadline_ns = now_ns() + kBaseNs + kNsPerByte * static_cast<int64_t>(text_bytes);
  }
}

RegexBudget::~RegexBudget() { deadline_ns = previous_; }

bool MatchWalk::next(Match& match) {
  while (from_ <= text_.size()) {
    if (!pattern_.find(text_, from_, match)) break;
    if (match.begin == match.end && match.end == last_end_) {
      if (from_ >= text_.size()) break;
      unicode::next(text_, from_);
      continue;
    }
    from_ = last_end_ = match.end;
    return true;
  }
  from_ = text_.size() + 1;
  return false;
}

std::unique_ptr<Pattern> compile_regex(std::string_view pattern, bool allow_scanner) {
  if (pattern.size() > kMaxPatternBytes) {
    throw Error(Code::ResourceExhausted,
                fmt::format("a regular expression of {} bytes is longer than {}", pattern.size(),
                            kMaxPatternBytes));
  }
  if (allow_scanner) {
    if (auto scanner = find_scanner(pattern)) return scanner;
  }
  return std::make_unique<PcrePattern>(pattern);
}

std::unique_ptr<Pattern> compile_literal(std::string_view literal) {
  return std::make_unique<Literal>(literal);
}

}  // namespace mlxcel::text

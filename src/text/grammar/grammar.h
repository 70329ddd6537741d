// A compiled grammar: which byte strings an answer may be. Independent of any vocabulary; a
// Constraint (constraint.h) applies it to tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace mlxcel::text {

/// What a grammar may cost. Beyond a limit compiling fails with ResourceExhausted naming it.
struct GrammarLimits {
  size_t max_source_bytes = size_t{1} << 20;
  int32_t max_dfa_states = 200'000;    // of one regular expression or string set
  int32_t max_total_states = 600'000;  // of all automata together
  int32_t max_rules = 100'000;
  int32_t max_enum_values = 20'000;
  int32_t max_shapes = 4'000;  // alternatives that one schema object may expand to
  int32_t max_depth = 256;     // nesting of the source, and of parentheses in it
  int32_t max_repeat = 1'000'000'000;
  double max_compile_s = 5.0;
};

struct GrammarProgram;

/// Immutable and shared by requests.
class Grammar {
 public:
  explicit Grammar(std::shared_ptr<const GrammarProgram> program);
  ~Grammar();

  /// llama.cpp's GBNF. InvalidArgument names the line, the column and the mistake. `tokenizer` is
  /// only needed where the grammar names tokens (<think>).
  static Result<std::shared_ptr<const Grammar>> from_gbnf(std::string_view source,
                                                          const Tokenizer* tokenizer = nullptr,
                                                          const GrammarLimits& limits = {});
  /// JSON Schema (draft 2020-12 and the older spellings). What cannot be enforced is refused with
  /// InvalidArgument naming the keyword and its place ("#/properties/a/pattern").
  static Result<std::shared_ptr<const Grammar>> from_json_schema(const Json& schema,
                                                                 const GrammarLimits& limits = {});
  /// A whole text that matches `pattern` (ECMA-262 syntax, anchored at both ends).
  static Result<std::shared_ptr<const Grammar>> from_regex(std::string_view pattern,
                                                           const GrammarLimits& limits = {});
  /// Any JSON object.
  static Result<std::shared_ptr<const Grammar>> json_object();

  /// Whether `text` as a whole is in the language.
  bool matches(std::string_view text) const;
  /// Whether `text` is the beginning of something in the language.
  bool matches_prefix(std::string_view text) const;

  /// This grammar behind any text up to and including `marker`, and white space. Kept for the next
  /// request that asks.
  std::shared_ptr<const Grammar> behind(const std::string& marker) const;

  const GrammarProgram& program() const { return *program_; }

 private:
  std::shared_ptr<const GrammarProgram> program_;
  mutable std::mutex mutex_;  // guards behind_
  mutable std::vector<std::pair<std::string, std::shared_ptr<const Grammar>>> behind_;
};

}  // namespace mlxcel::text

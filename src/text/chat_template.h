// Chat templates: the Jinja2 language as transformers configures it (trim_blocks, lstrip_blocks,
// loop controls, immutable sandbox), with limits on steps, recursion and output.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace mlxcel::text {

struct TemplateLimits {
  int64_t max_steps = 20'000'000;
  int64_t max_output_bytes = int64_t{64} << 20;
  int64_t max_memory_bytes = int64_t{256} << 20;  // of values alive at one time
  int max_depth = 128;                            // of nested blocks and macro calls
};

/// A compiled template. Immutable, cheap to copy, thread-safe.
class ChatTemplate {
 public:
  static constexpr size_t kMaxSourceBytes = size_t{4} << 20;
  /// InvalidArgument with the line for a syntax error.
  static Result<ChatTemplate> parse(std::string_view source, const TemplateLimits& limits = {});
  /// `context` is an object: messages, tools, add_generation_prompt, bos_token, user variables.
  /// InvalidArgument with the template's own text when it calls raise_exception; ResourceExhausted
  /// beyond the limits. `now_unix` feeds strftime_now; negative = the current local time.
  Result<std::string> render(const Json& context, int64_t now_unix = -1) const;
  const std::string& source() const;

 private:
  struct Program;
  std::shared_ptr<const Program> program_;
};

}  // namespace mlxcel::text

#include "text/chat_template.h"

#include <ctime>

#include "base/utf8.h"
#include "text/jinja_interpreter.h"

namespace mlxcel::text {

struct ChatTemplate::Program {
  std::string source;
  TemplateLimits limits;
  std::shared_ptr<const jinja::Program> code;
};

namespace {

// Levels of the interpreter for one level that the user counts: a macro call takes about eight.
constexpr int kLevelsPerDepth = 8;

Error to_error(const jinja::Failure& failure, int line) {
  if (failure.fault() == jinja::Fault::Raised) {
    return Error(Code::InvalidArgument, failure.message());
  }
  const Code code = failure.fault() == jinja::Fault::Limit         ? Code::ResourceExhausted
                    : failure.fault() == jinja::Fault::Unsupported ? Code::Unsupported
                                                                   : Code::InvalidArgument;
  return Error(code, "chat template, line " +
                         std::to_string(failure.line() > 0 ? failure.line() : line) + ": " +
                         failure.message());
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, const TemplateLimits& limits) {
  if (source.size() > kMaxSourceBytes) {
    return Error(Code::ResourceExhausted, "the chat template has " + std::to_string(source.size()) +
                                              " bytes; at most " + std::to_string(kMaxSourceBytes) +
                                              " are accepted");
  }
  auto program = std::make_shared<Program>();
  program->source = std::string(source);
  program->limits = limits;
  try {
    program->code = jinja::parse_program(utf8::repair(source), limits.max_depth);
  } catch (const jinja::Failure& failure) {
    return to_error(failure, 1);
  }
  ChatTemplate out;
  out.program_ = std::move(program);
  return out;
}

Result<std::string> ChatTemplate::render(const Json& context, int64_t now_unix) const {
  if (!context.is_object()) {
    return Error(Code::InvalidArgument, "the context of a chat template must be an object");
  }
  const TemplateLimits& limits = program_->limits;
  if (now_unix < 0) now_unix = static_cast<int64_t>(std::time(nullptr));
  jinja::Heap heap(limits.max_steps, limits.max_memory_bytes, limits.max_output_bytes);
  jinja::Interpreter interpreter(*program_->code, context, heap, now_unix,
                                 limits.max_depth * kLevelsPerDepth);
  try {
    return interpreter.run();
  } catch (const jinja::Failure& failure) {
    return to_error(failure, interpreter.line());
  } catch (const std::bad_alloc&) {
    return Error(Code::ResourceExhausted, "there is not enough memory to render the chat template");
  }
}

const std::string& ChatTemplate::source() const { return program_->source; }

}  // namespace mlxcel::text

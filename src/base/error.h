// Errors and results. Exceptions end a load, a command or a step; Result carries failures that are
// a normal part of reading input.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace mlxcel {

enum class Code : uint8_t {
  InvalidArgument,
  NotFound,
  Unsupported,
  ResourceExhausted,
  Cancelled,
  Deadline,
  Corrupt,
  Internal,
};

/// The snake_case name of a code, as logs and the HTTP layer print it.
std::string_view code_name(Code code);

/// The only exception type thrown by our own code. `what()` is a complete sentence for the
/// operator.
class Error : public std::exception {
 public:
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  Code code() const noexcept { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }
  const std::string& message() const noexcept { return message_; }
  /// The same error with "context: " put before its message.
  Error within(std::string_view context) const;

 private:
  Code code_;
  std::string message_;
};

/// Value or Error, for failures that are part of normal input handling.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : v_(std::in_place_index<1>, std::move(error)) {}
  bool ok() const { return v_.index() == 0; }
  explicit operator bool() const { return ok(); }
  /// The value; throws the error when there is none.
  T& value() & { return ok() ? std::get<0>(v_) : throw std::get<1>(v_); }
  const T& value() const& { return ok() ? std::get<0>(v_) : throw std::get<1>(v_); }
  T value() && { return ok() ? std::get<0>(std::move(v_)) : throw std::get<1>(std::move(v_)); }
  /// The error; only when !ok().
  const Error& error() const { return std::get<1>(v_); }

 private:
  std::variant<T, Error> v_;
};

/// Runs `fn` and puts `context` before the message of any Error that leaves it.
template <class Fn>
auto with_context(std::string_view context, Fn&& fn) {
  try {
    return fn();
  } catch (const Error& e) {
    throw e.within(context);
  }
}

namespace detail {
[[noreturn]] void check_failed(const char* file, int line, const char* expression,
                               std::string_view message);
}

}  // namespace mlxcel

/// Broken invariants: throws Internal with file and line, in all builds.
#define MLXCEL_CHECK(cond, message)                                         \
  do {                                                                      \
    if (!(cond)) [[unlikely]]                                               \
      ::mlxcel::detail::check_failed(__FILE__, __LINE__, #cond, (message)); \
  } while (false)

#ifdef MLXCEL_DEBUG_CHECKS
#define MLXCEL_DCHECK(cond, message) MLXCEL_CHECK(cond, message)
#else
#define MLXCEL_DCHECK(cond, message) \
  do {                               \
  } while (false)
#endif

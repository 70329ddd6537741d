// The flags of `serve` as tables: what each is called, which variables stand for it, what it sets.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "apps/serve_arguments.h"
#include "apps/unavailable.h"
#include "base/error.h"

namespace mlxcel::apps {

/// The text of one flag or variable. Accessors throw InvalidArgument naming it.
struct FlagValue {
  std::string name, text;
  int64_t integer(int64_t low, int64_t high) const;
  int32_t int32(int64_t low, int64_t high) const {
    return static_cast<int32_t>(integer(low, high));
  }
  float number(double low, double high) const;
  bool boolean() const;
  int64_t bytes() const;  // "2147483648", "2GB"
  const std::string& one_of(std::initializer_list<std::string_view> values) const;
  /// InvalidArgument "name: 'text' is not `expected`".
  Error refused(std::string_view expected) const;
};

struct ServeFlag {
  const char* group;
  const char* names;      // "-a,--long,!--no-long"
  const char* type;       // null: a switch
  const char* variables;  // "A,B": the first that is set counts when the flag is absent
  const char* help;
  void (*set)(ServeArguments&, const FlagValue&);
  enum class Count : uint8_t { Once, Many, OptionalValue } count = Count::Once;
};

/// A flag of llama-server that is refused because it asks for something that is not done here.
struct RefusedFlag {
  const char* names;
  UnavailableFlag::Value value;
  const char* reason;
};

/// In the order of --help.
std::span<const ServeFlag> serve_flags();
/// Documented flags whose work is not in this build.
std::span<const UnavailableFlag> unavailable_serve_flags();
std::span<const RefusedFlag> refused_serve_flags();
/// Flags of llama-server that change nothing here; accepted with a note in the log.
std::span<const UnavailableFlag> idle_serve_flags();

/// llama-server's long names behind one dash ("-ngl") in the form that the parser takes.
std::string canonical_flag(const std::string& argument);

}  // namespace mlxcel::apps

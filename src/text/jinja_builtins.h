// Tables of the filters, tests, methods and global functions of the language.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string_view>

#include "text/jinja_runtime.h"

namespace mlxcel::text::jinja {

using FilterFn = Value (*)(Runtime&, const Value& subject, Args& args);
using TestFn = bool (*)(Runtime&, const Value& subject, Args& args);
using MethodFn = Value (*)(Runtime&, const Value& self, Args& args);

struct NamedFilter {
  std::string_view name;
  FilterFn function;
};
struct NamedTest {
  std::string_view name;
  TestFn function;
};
struct NamedMethod {
  std::string_view name;
  MethodFn function;
};

/// Null when there is none.
FilterFn find_filter(std::string_view name);
TestFn find_test(std::string_view name);
MethodFn find_string_method(std::string_view name);
MethodFn find_list_method(std::string_view name, bool tuple);
MethodFn find_dict_method(std::string_view name);
MethodFn find_number_method(const Value& number, std::string_view name);

/// Methods that would change a list or dict: the sandbox hides them.
bool is_mutating_method(const Value& object, std::string_view name);

/// range, dict, namespace, cycler, joiner, raise_exception, strftime_now; undefined otherwise.
Value find_global(Runtime& runtime, std::string_view name);

Value call_filter(Runtime& runtime, std::string_view name, const Value& subject, Args& args);
bool call_test(Runtime& runtime, std::string_view name, const Value& subject, Args& args);

/// Arguments by parameter name. Throws Type for unknown, repeated, missing or extra arguments.
class Bound {
 public:
  Bound(std::string_view function, Args& args, std::initializer_list<std::string_view> params,
        size_t required = 0);
  bool given(size_t i) const { return given_[i]; }
  /// The argument, or None when it was not given.
  const Value& operator[](size_t i) const { return values_[i]; }
  int64_t integer(size_t i, int64_t fallback) const;
  bool flag(size_t i, bool fallback) const;
  /// Throws Type when the argument is not text.
  std::string_view text(size_t i, std::string_view fallback) const;

 private:
  static constexpr size_t kMax = 8;
  std::string_view function_;
  std::array<Value, kMax> values_;
  std::array<bool, kMax> given_{};
};

// Families of filters and tests, one file each.
std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> html_filters();
std::span<const NamedFilter> sequence_filters();
std::span<const NamedFilter> selection_filters();
std::span<const NamedFilter> number_filters();

Value filter_tojson(Runtime& runtime, const Value& subject, Args& args);
Value filter_urlize(Runtime& runtime, const Value& subject, Args& args);
Value filter_wordwrap(Runtime& runtime, const Value& subject, Args& args);
Value filter_pprint(Runtime& runtime, const Value& subject, Args& args);
/// `'%s' % values`: Python's printf-style formatting; `values` is a tuple, a dict or one value.
/// With `escaped`, as for a Markup format, texts that are not Markup are escaped.
std::string percent_format(Runtime& runtime, std::string_view format, const Value& values,
                           bool escaped = false);
/// str.format(): replacement fields with conversions and format specifications.
std::string brace_format(Runtime& runtime, std::string_view format, const Args& args);
/// format(value, spec).
std::string format_value(Runtime& runtime, const Value& value, std::string_view spec);
/// datetime.strftime of a local time.
std::string format_time(int64_t unix_seconds, std::string_view format);
/// int(text, base) and float(text) of Python; false when the text is no number.
bool parse_python_int(std::string_view text, int base, int64_t& value);
bool parse_python_float(std::string_view text, double& value);

}  // namespace mlxcel::text::jinja

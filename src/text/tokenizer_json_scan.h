// A pull reader for large JSON files of which only a few members are wanted as they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace mlxcel::text {

/// Walks one JSON text without building anything. All functions throw InvalidArgument with the
/// place of the mistake. The text must outlive the cursor and the views it gives.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {}

  /// The next character that is no white space, or NUL at the end.
  char peek();
  /// Takes `c`, which must be next.
  void expect(char c);
  /// Takes `c` if it is next.
  bool accept(char c);
  /// A string. The view is into the text, or into `buffer` when it has escapes.
  std::string_view string(std::string& buffer);
  /// A number without fraction or exponent. Throws also when it does not fit 64 bits.
  int64_t integer();
  double real();
  /// Skips any value and gives its text.
  std::string_view skip_value();
  /// Takes the end of the text.
  void finish();
  [[noreturn]] void fail(std::string_view what) const;

  /// Calls member(key) for every member of the object that comes next; it must take the value.
  /// The key is valid until the next string is read.
  template <class Member>
  void object(Member&& member) {
    expect('{');
    if (accept('}')) return;
    std::string buffer;
    do {
      const std::string_view key = string(buffer);
      expect(':');
      member(key);
    } while (accept(','));
    expect('}');
  }
  /// Calls element() for every element of the array that comes next; it must take the value.
  template <class Element>
  void array(Element&& element) {
    expect('[');
    if (accept(']')) return;
    do {
      element();
    } while (accept(','));
    expect(']');
  }

 private:
  void skip_string();
  std::string_view number_text();
  uint32_t hex4();
  std::string_view unescape(size_t begin, std::string& buffer);

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace mlxcel::text

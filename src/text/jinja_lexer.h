// Turns a template's source into tokens: text between tags with the whitespace control already
// applied, and the words of the tags. Follows Jinja's default delimiters with trim_blocks and
// lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcel::text::jinja {

enum class Tok : uint8_t {
  Data,
  BlockBegin,
  BlockEnd,
  VariableBegin,
  VariableEnd,
  Name,
  String,
  Integer,
  Float,
  Operator,
  End,
};

struct Token {
  Tok kind = Tok::End;
  int line = 1;
  std::string text;  // of a string: unescaped; of an operator: its characters
  int64_t integer = 0;
  double real = 0;
};

/// Throws Failure (Syntax, with the line) for an unclosed tag, a bad character or unbalanced
/// brackets. The last token is End.
std::vector<Token> tokenize(std::string_view source);

/// "end of print statement", "end of template" or the token's own text, for messages.
std::string describe(const Token& token);

}  // namespace mlxcel::text::jinja

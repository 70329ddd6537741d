// Strings of schemas as automata over the inside of JSON strings, canonically escaped.
#pragma once

#include <string_view>
#include <vector>

#include "text/grammar/dfa.h"
#include "text/grammar/schema_shape.h"

namespace mlxcel::text::grammar {

/// Any text, each character escaped only where it must be.
const Dfa& canonical_text();
/// One character of a JSON string in any spelling that JSON allows (no lone surrogates): a prefix
/// code. And any number of them between quotes.
const Dfa& any_character();
const Dfa& any_quoted();
/// Texts matching `pattern` somewhere; throws InvalidArgument or ResourceExhausted.
Dfa pattern_dfa(std::string_view pattern, size_t max_states);
/// Texts of a "format"; null when the format is unknown.
const Dfa* format_dfa(std::string_view format);
/// Names of the formats that are enforced.
std::vector<std::string_view> known_formats();
/// `text` as the inside of a JSON string in canonical spelling.
std::string json_escaped(std::string_view text);
/// `inside` between quotes.
Dfa quoted(const Dfa& inside);

}  // namespace mlxcel::text::grammar

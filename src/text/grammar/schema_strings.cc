#include "text/grammar/schema_strings.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>

#include "base/error.h"
#include "text/grammar/regular.h"

namespace mlxcel::text::grammar {

namespace {

constexpr size_t kFormatStates = 50'000;

struct Format {
  std::string_view name;
  std::string pattern;
};

const std::vector<Format>& formats() {
  static const std::vector<Format> table = [] {
    // RFC 3339, section 5.6; leap years are counted, leap seconds are not offered.
    const std::string date =
        "(([0-9][0-9](0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29|"
        "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
        "02-(0[1-9]|1[0-9]|2[0-8])))";
    const std::string time =
        "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
    // RFC 3339, appendix A.
    const std::string day_time = "T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S)";
    const std::string duration =
        "P([0-9]+W|([0-9]+Y([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D)"
        "(" +
        day_time + ")?|" + day_time + ")";
    const std::string octet = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
    const std::string ipv4 = "(" + octet + "\\.){3}" + octet;
    // RFC 3986, section 3.2.2 (RFC 4291 as text).
    const std::string h = "[0-9A-Fa-f]{1,4}";
    const std::string ls32 = "(" + h + ":" + h + "|" + ipv4 + ")";
    const std::string ipv6 = "((" + h + ":){6}" + ls32 + "|::(" + h + ":){5}" + ls32 + "|(" + h +
                             ")?::(" + h + ":){4}" + ls32 + "|((" + h + ":){0,1}" + h + ")?::(" +
                             h + ":){3}" + ls32 + "|((" + h + ":){0,2}" + h + ")?::(" + h +
                             ":){2}" + ls32 + "|((" + h + ":){0,3}" + h + ")?::" + h + ":" + ls32 +
                             "|((" + h + ":){0,4}" + h + ")?::" + ls32 + "|((" + h + ":){0,5}" + h +
                             ")?::" + h + "|((" + h + ":){0,6}" + h + ")?::)";
    // RFC 1123: labels of at most 63, letters, digits and inner hyphens.
    const std::string label = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
    const std::string hostname = label + "(\\." + label + ")*";
    const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
    const std::string email = atom + "(\\." + atom + ")*@" + hostname;
    const std::string uuid =
        "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}";
    // RFC 3986, appendix A.
    const std::string pct = "%[0-9A-Fa-f]{2}";
    const std::string pchar = "([A-Za-z0-9._~!$&'()*+,;=:@-]|" + pct + ")";
    const std::string segment_nc = "([A-Za-z0-9._~!$&'()*+,;=@-]|" + pct + ")+";
    const std::string reg_name = "([A-Za-z0-9._~!$&'()*+,;=-]|" + pct + ")*";
    const std::string authority = "(([A-Za-z0-9._~!$&'()*+,;=:-]|" + pct + ")*@)?(" + reg_name +
                                  "|\\[" + ipv6 + "\\])(:[0-9]*)?";
    const std::string abempty = "(/" + pchar + "*)*";
    const std::string absolute = "/(" + pchar + "+(/" + pchar + "*)*)?";
    const std::string tail = "(\\?(" + pchar + "|[/?])*)?(#(" + pchar + "|[/?])*)?";
    const std::string rootless = pchar + "+(/" + pchar + "*)*";
    const std::string uri = "[A-Za-z][A-Za-z0-9+.-]*:(//" + authority + abempty + "|" + absolute +
                            "|" + rootless + "|)" + tail;
    const std::string relative = "(//" + authority + abempty + "|" + absolute + "|" + segment_nc +
                                 "(/" + pchar + "*)*|)" + tail;
    const std::string pointer = "(/([^~/]|~[01])*)*";
    return std::vector<Format>{
        {"date", date},
        {"time", time},
        {"date-time", date + "T" + time},
        {"duration", duration},
        {"ipv4", ipv4},
        {"ipv6", ipv6},
        {"hostname", hostname},
        {"email", email},
        {"uuid", uuid},
        {"uri", uri},
        {"uri-reference", "(" + uri + "|" + relative + ")"},
        {"json-pointer", pointer},
        {"relative-json-pointer", "(0|[1-9][0-9]*)(#|" + pointer + ")"},
    };
  }();
  return table;
}

Dfa whole(std::string_view pattern, Spelling spelling) {
  return compile_regular(parse_regex(pattern), spelling, Anchoring::Whole, kFormatStates);
}

}  // namespace

const Dfa& canonical_text() {
  static const Dfa dfa = any_text(Spelling::Json, 0, -1, 1000);
  return dfa;
}

namespace {

// Bytes of one character between quotes; \u escapes of surrogates come in pairs.
Regex character_regex() {
  Regex r;
  const auto set = [&](CharSet s) {
    return r.add({.kind = RegexNode::Kind::Set, .set = std::move(s)});
  };
  const auto cat = [&](std::vector<uint32_t> kids) {
    return r.add({.kind = RegexNode::Kind::Cat, .kids = std::move(kids)});
  };
  CharSet reserved{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  const CharSet hex{{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  const CharSet d{{'D', 'D'}, {'d', 'd'}};
  CharSet not_d = hex;
  not_d = CharSet{{'0', '9'}, {'A', 'C'}, {'a', 'c'}, {'E', 'F'}, {'e', 'f'}};
  const CharSet low{{'8', '9'}, {'A', 'B'}, {'a', 'b'}};
  const CharSet high{{'C', 'F'}, {'c', 'f'}};
  const uint32_t backslash = set({{'\\', '\\'}});
  const uint32_t u = set({{'u', 'u'}});
  const uint32_t plain = set(reserved.negated());
  const uint32_t simple = cat({backslash, set({{'"', '"'},
                                               {'\\', '\\'},
                                               {'/', '/'},
                                               {'b', 'b'},
                                               {'f', 'f'},
                                               {'n', 'n'},
                                               {'r', 'r'},
                                               {'t', 't'}})});
  const uint32_t any = set(hex);
  const uint32_t bmp = cat({backslash, u, set(not_d), any, any, any});
  const uint32_t bmp_d = cat({backslash, u, set(d), set({{'0', '7'}}), any, any});
  const uint32_t pair = cat({backslash, u, set(d), set(low), any, any,  //
                             backslash, u, set(d), set(high), any, any});
  r.root = r.add({.kind = RegexNode::Kind::Alt, .kids = {plain, simple, bmp, bmp_d, pair}});
  return r;
}

}  // namespace

const Dfa& any_character() {
  static const Dfa dfa = compile_regular(character_regex(), Spelling::Utf8, Anchoring::Whole, 1000);
  return dfa;
}

const Dfa& any_quoted() {
  static const Dfa dfa = [] {
    Regex r = character_regex();
    const uint32_t many =
        r.add({.kind = RegexNode::Kind::Repeat, .kids = {r.root}, .min = 0, .max = -1});
    r.root = many;
    return quoted(compile_regular(r, Spelling::Utf8, Anchoring::Whole, 1000));
  }();
  return dfa;
}

Dfa pattern_dfa(std::string_view pattern, size_t max_states) {
  return compile_regular(parse_regex(pattern), Spelling::Json, Anchoring::Search, max_states);
}

const Dfa* format_dfa(std::string_view format) {
  static std::mutex mutex;  // guards the two below
  static std::map<std::string, Dfa, std::less<>> made;
  const std::lock_guard lock(mutex);
  const auto it = made.find(format);
  if (it != made.end()) return &it->second;
  for (const Format& f : formats()) {
    if (f.name == format) {
      return &made.emplace(std::string(format), whole(f.pattern, Spelling::Json)).first->second;
    }
  }
  return nullptr;
}

std::vector<std::string_view> known_formats() {
  std::vector<std::string_view> out;
  for (const Format& f : formats()) out.push_back(f.name);
  return out;
}

std::string json_escaped(std::string_view text) {
  std::string out;
  static constexpr std::string_view kHex = "0123456789abcdef";
  for (const char c : text) {
    const auto b = static_cast<uint8_t>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (b < 0x20) {
          out += "\\u00";
          out += b >= 16 ? '1' : '0';
          out += kHex[b & 15];
        } else {
          out += c;
        }
    }
  }
  return out;
}

Dfa quoted(const Dfa& inside) {
  if (inside.empty()) return inside;
  const Dfa closed = concat_byte(inside, '"');
  Dfa raw = closed;
  const uint32_t n = closed.num_states();
  raw.accepting.push_back(0);
  raw.next.resize(size_t{n + 1} * closed.num_classes, 0);
  // The quote has a class of its own since concat_byte().
  raw.next[size_t{n} * closed.num_classes + closed.classes['"']] = Dfa::kStart;
  return trimmed(raw, n);
}

}  // namespace mlxcel::text::grammar

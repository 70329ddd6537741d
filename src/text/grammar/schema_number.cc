#include "text/grammar/schema_number.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/grammar/regular.h"

namespace mlxcel::text::grammar {

namespace {

// Byte classes of numbers.
enum : uint8_t { kOther = 0, kMinus = 1, kPoint = 2, kDigit0 = 3 };
constexpr uint32_t kClasses = 13;

Dfa blank(size_t states) {
  Dfa d;
  d.classes.fill(kOther);
  d.classes['-'] = kMinus;
  d.classes['.'] = kPoint;
  for (uint8_t i = 0; i < 10; ++i) d.classes['0' + i] = static_cast<uint8_t>(kDigit0 + i);
  d.num_classes = kClasses;
  d.next.assign(states * kClasses, 0);
  d.accepting.assign(states, 0);
  return d;
}

Dfa from_regex(std::string_view pattern) {
  return compile_regular(parse_regex(pattern), Spelling::Utf8, Anchoring::Whole, 10'000);
}

// Compares a non-negative decimal, digit by digit, with |bound|. Outcomes: -1, 0, 1.
class Comparator {
 public:
  Comparator(Dfa& dfa, const Decimal& bound, uint32_t base) : d_(dfa), bound_(bound), base_(base) {}

  static uint32_t num_states(const Decimal& bound) {
    return static_cast<uint32_t>(3 * (bound.integer.size() + 2) + bound.fraction.size() + 6);
  }
  // State after i digits of the integer part.
  uint32_t integer(size_t i, int cmp) const {
    return base_ + static_cast<uint32_t>(3 * i) + static_cast<uint32_t>(cmp + 1);
  }
  uint32_t equal_fraction(size_t j) const {
    return base_ + static_cast<uint32_t>(3 * (bound_.integer.size() + 2) + j);
  }
  uint32_t settled(int cmp) const {
    return equal_fraction(bound_.fraction.size()) + (cmp < 0 ? 1U : 2U);
  }

  /// Fills the transitions; `accept(outcome)` decides about each state.
  template <class Accept>
  void fill(Accept accept) {
    const size_t n = bound_.integer.size();
    for (size_t i = 0; i <= n + 1; ++i) {
      for (int cmp = -1; cmp <= 1; ++cmp) {
        const uint32_t s = integer(i, cmp);
        for (int digit = 0; digit < 10; ++digit) {
          int now = cmp;
          if (i < n && cmp == 0) now = sign(digit - (bound_.integer[i] - '0'));
          if (i >= n) now = 1;  // more digits than the bound has
          set(s, kDigit0 + digit, integer(std::min(i + 1, n + 1), now));
        }
        if (i == 0) continue;
        const int outcome = i < n ? -1 : i > n ? 1 : cmp;
        set(s, kPoint, outcome == 0 ? equal_fraction(0) : settled(outcome));
        const int whole = outcome == 0 && !bound_.fraction.empty() ? -1 : outcome;
        d_.accepting[s] = accept(whole) ? 1 : 0;
      }
    }
    const size_t f = bound_.fraction.size();
    for (size_t j = 0; j <= f; ++j) {
      const uint32_t s = equal_fraction(j);
      for (int digit = 0; digit < 10; ++digit) {
        const int c = sign(digit - (j < f ? bound_.fraction[j] - '0' : 0));
        set(s, kDigit0 + digit, c == 0 ? equal_fraction(std::min(j + 1, f)) : settled(c));
      }
      d_.accepting[s] = accept(j < f ? -1 : 0) ? 1 : 0;
    }
    for (const int c : {-1, 1}) {
      for (int digit = 0; digit < 10; ++digit) set(settled(c), kDigit0 + digit, settled(c));
      d_.accepting[settled(c)] = accept(c) ? 1 : 0;
    }
  }

 private:
  static int sign(int v) { return v < 0 ? -1 : v > 0 ? 1 : 0; }
  void set(uint32_t s, int cls, uint32_t t) {
    d_.next[s * kClasses + static_cast<uint32_t>(cls)] = t;
  }
  Dfa& d_;
  const Decimal& bound_;
  const uint32_t base_;
};

bool holds(Compare op, int outcome) {
  switch (op) {
    case Compare::Less:
      return outcome < 0;
    case Compare::LessEqual:
      return outcome <= 0;
    case Compare::Greater:
      return outcome > 0;
    case Compare::GreaterEqual:
      return outcome >= 0;
    case Compare::Equal:
      break;
  }
  return outcome == 0;
}

}  // namespace

std::string Decimal::text() const {
  return (negative && !is_zero() ? "-" : "") + integer + (fraction.empty() ? "" : "." + fraction);
}

Decimal decimal_of(const Json& number) {
  std::string text =
      number.is_int() ? fmt::format("{}", number.as_int()) : fmt::format("{}", number.as_double());
  Decimal d;
  if (text.starts_with('-')) {
    d.negative = true;
    text.erase(0, 1);
  }
  int64_t exponent = 0;
  const size_t e = text.find_first_of("eE");
  if (e != std::string::npos) {
    exponent = std::stoll(text.substr(e + 1));
    text.resize(e);
  }
  const size_t point = text.find('.');
  std::string digits = text;
  auto whole = static_cast<int64_t>(text.size());
  if (point != std::string::npos) {
    digits.erase(point, 1);
    whole = static_cast<int64_t>(point);
  }
  whole += exponent;
  if (whole <= 0) {
    digits.insert(0, static_cast<size_t>(1 - whole), '0');
    whole = 1;
  }
  if (static_cast<int64_t>(digits.size()) < whole) {
    digits.append(static_cast<size_t>(whole) - digits.size(), '0');
  }
  d.integer = digits.substr(0, static_cast<size_t>(whole));
  d.fraction = digits.substr(static_cast<size_t>(whole));
  d.integer.erase(0, std::min(d.integer.find_first_not_of('0'), d.integer.size() - 1));
  d.fraction.resize(d.fraction.find_last_not_of('0') + 1);
  return d;
}

Dfa all_decimals() {
  static const Dfa dfa = combine(from_regex("-?(0|[1-9][0-9]*)(\\.[0-9]+)?"),
                                 from_regex("-0(\\.0+)?"), SetOp::Minus, 1000);
  return dfa;
}
Dfa all_integers() {
  static const Dfa dfa = from_regex("0|-?[1-9][0-9]*");
  return dfa;
}

Dfa compared(Compare op, const Decimal& bound) {
  const uint32_t per_sign = Comparator::num_states(bound);
  // States: 0 dead, 1 start, then the two comparators; the start is the one for no sign.
  Dfa d = blank(2 + size_t{per_sign} * 2);
  Comparator plain(d, bound, 2);
  Comparator minus(d, bound, 2 + per_sign);
  plain.fill([&](int outcome) { return holds(op, bound.negative ? 1 : outcome); });
  minus.fill([&](int outcome) { return holds(op, bound.negative ? -outcome : -1); });
  for (uint32_t c = 0; c < kClasses; ++c) {
    d.next[kClasses + c] = d.next[plain.integer(0, 0) * kClasses + c];
  }
  d.next[kClasses + kMinus] = minus.integer(0, 0);
  return combine(trimmed(d, Dfa::kStart), all_decimals(), SetOp::And, 100'000);
}

std::optional<Dfa> multiples(const Decimal& step, size_t max_states) {
  const std::string digits = step.integer + step.fraction;
  const size_t first = std::min(digits.find_first_not_of('0'), digits.size());
  if (digits.size() - first > 9) return {};
  const uint64_t modulus = std::stoull("0" + digits.substr(first));
  const size_t places = step.fraction.size();
  if (modulus == 0 || modulus * (places + 2) > max_states) return {};
  const auto m = static_cast<uint32_t>(modulus);
  // integer part: remainder r; then j places, remainder r; behind the last place only zeros.
  const auto integer = [&](uint32_t r) { return 3 + r; };
  const auto place = [&](size_t j, uint32_t r) { return 3 + m + static_cast<uint32_t>(j) * m + r; };
  Dfa d = blank(3 + size_t{m} * (places + 2));
  const auto set = [&](uint32_t s, uint32_t cls, uint32_t t) { d.next[s * kClasses + cls] = t; };
  std::vector<uint64_t> power(places + 1, 1 % modulus);  // 10^i mod m
  for (size_t i = 1; i <= places; ++i) power[i] = power[i - 1] * 10 % modulus;
  for (uint32_t r = 0; r < m; ++r) {
    for (uint32_t digit = 0; digit < 10; ++digit) {
      const auto t = static_cast<uint32_t>((uint64_t{r} * 10 + digit) % m);
      set(integer(r), kDigit0 + digit, integer(t));
      for (size_t j = 0; j < places; ++j) set(place(j, r), kDigit0 + digit, place(j + 1, t));
    }
    set(integer(r), kPoint, place(0, r));
    set(place(places, r), kDigit0, place(places, r));
    d.accepting[integer(r)] = r * power[places] % modulus == 0 ? 1 : 0;
    for (size_t j = 0; j <= places; ++j) {
      d.accepting[place(j, r)] = r * power[places - j] % modulus == 0 ? 1 : 0;
    }
  }
  for (uint32_t digit = 0; digit < 10; ++digit) {
    set(Dfa::kStart, kDigit0 + digit, integer(digit % m));
    set(2, kDigit0 + digit, integer(digit % m));
  }
  set(Dfa::kStart, kMinus, 2);
  return combine(trimmed(d, Dfa::kStart), all_decimals(), SetOp::And, max_states * 4);
}

}  // namespace mlxcel::text::grammar

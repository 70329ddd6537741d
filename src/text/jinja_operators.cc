// Arithmetic, order and membership with Python's rules.
#include <cmath>
#include <limits>

#include "text/jinja_objects.h"
#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

namespace {

[[noreturn]] void unsupported(std::string_view op, const Value& a, const Value& b) {
  fail(Fault::Type, "unsupported operand type(s) for " + std::string(op) + ": '" + type_name(a) +
                        "' and '" + type_name(b) + "'");
}

[[noreturn]] void too_large() { fail(Fault::Overflow, "the integer result does not fit 64 bits"); }

int64_t floor_div(int64_t a, int64_t b) {
  if (b == -1) {
    if (a == std::numeric_limits<int64_t>::min()) too_large();
    return -a;
  }
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t floor_mod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (true) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) too_large();
    exponent >>= 1;
    if (exponent == 0) return result;
    if (__builtin_mul_overflow(base, base, &base)) too_large();
  }
}

Value integer_binary(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+") {
    if (__builtin_add_overflow(a, b, &result)) too_large();
  } else if (op == "-") {
    if (__builtin_sub_overflow(a, b, &result)) too_large();
  } else if (op == "*") {
    if (__builtin_mul_overflow(a, b, &result)) too_large();
  } else if (op == "**") {
    if (b < 0) {
      if (a == 0) fail(Fault::ZeroDivision, "0.0 cannot be raised to a negative power");
      return std::pow(static_cast<double>(a), static_cast<double>(b));
    }
    if (a == 0 || a == 1) return b == 0 ? int64_t{1} : a;
    if (a == -1) return (b & 1) != 0 ? int64_t{-1} : int64_t{1};
    return integer_power(a, b);
  } else {
    if (b == 0) {
      fail(Fault::ZeroDivision,
           op == "/" ? "division by zero" : "integer division or modulo by zero");
    }
    if (op == "/")
      return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
    return op == "//" ? floor_div(a, b) : floor_mod(a, b);
  }
  return result;
}

double float_mod(double a, double b) {
  double r = std::fmod(a, b);
  if (r != 0) {
    if ((b < 0) != (r < 0)) r += b;
  } else {
    r = std::copysign(0.0, b);
  }
  return r;
}

/// Python's float floor division, which rounds the quotient of the exact remainder.
double float_floor_div(double a, double b) {
  const double r = std::fmod(a, b);
  double q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) q -= 1;
  if (q == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(q);
  return q - floored > 0.5 ? floored + 1 : floored;
}

Value float_binary(std::string_view op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") {
    if (a == 0 && b < 0) fail(Fault::ZeroDivision, "0.0 cannot be raised to a negative power");
    if (a < 0 && std::isfinite(b) && std::trunc(b) != b) {
      fail(Fault::Unsupported, "a fractional power of a negative number is complex");
    }
    const double result = std::pow(a, b);
    if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
      fail(Fault::Overflow, "(34, 'Numerical result out of range')");
    }
    return result;
  }
  if (b == 0) {
    fail(Fault::ZeroDivision, op == "/"    ? "float division by zero"
                              : op == "//" ? "float floor division by zero"
                                           : "float modulo");
  }
  if (op == "/") return a / b;
  return op == "//" ? float_floor_div(a, b) : float_mod(a, b);
}

Value concat_text(Runtime& runtime, const Value& a, const Value& b) {
  const bool markup = a.is_markup() || b.is_markup();
  const size_t room = (a.text().size() + b.text().size()) * (markup ? 5 : 1);
  runtime.heap().check_string(room);
  const Charge charge(&runtime.heap(), room);
  std::string out;
  out.reserve(room);
  for (const Value* part : {&a, &b}) {
    if (markup && !part->is_markup()) {
      out += escape_html(part->text());
    } else {
      out += part->text();
    }
  }
  return make_string(&runtime.heap(), std::move(out), markup);
}

Value concat_lists(Runtime& runtime, const Value& a, const Value& b) {
  ListBuilder out(runtime);
  for (const Value& item : a.items()) out.push(item);
  for (const Value& item : b.items()) out.push(item);
  return a.is(Type::Tuple) ? out.tuple() : out.list();
}

Value repeat(Runtime& runtime, const Value& sequence, int64_t times) {
  if (sequence.is_string()) {
    TextBuilder out(runtime);
    out.repeat(sequence.text(), times);
    return make_string(&runtime.heap(), out.take(), sequence.is_markup());
  }
  ListBuilder out(runtime);
  for (int64_t i = 0; i < times && !sequence.items().empty(); ++i) {
    for (const Value& item : sequence.items()) out.push(item);
  }
  return sequence.is(Type::Tuple) ? out.tuple() : out.list();
}

bool is_sequence(const Value& value) { return value.is_string() || value.is_list(); }

template <class T>
bool apply_order(std::string_view op, const T& a, const T& b) {
  if (op == "<") return a < b;
  if (op == "<=") return a <= b;
  return op == ">" ? a > b : a >= b;
}

}  // namespace

Value binary(Runtime& runtime, std::string_view op, const Value& a, const Value& b) {
  if (op == "%" && a.is_string()) {
    std::string text = percent_format(runtime, a.text(), b, a.is_markup());
    return make_string(&runtime.heap(), std::move(text), a.is_markup());
  }
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  if (a.is_integral() && b.is_integral()) return integer_binary(op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return float_binary(op, a.real(), b.real());
  if (op == "+") {
    if (a.is_string() && b.is_string()) return concat_text(runtime, a, b);
    if (a.is_list() && a.type() == b.type()) return concat_lists(runtime, a, b);
    if (is_sequence(a)) {
      const std::string name = a.is_string() ? "str" : type_name(a);
      fail(Fault::Type,
           "can only concatenate " + name + " (not \"" + type_name(b) + "\") to " + name);
    }
  }
  if (op == "*") {
    if (is_sequence(a) && b.is_integral()) return repeat(runtime, a, b.integer());
    if (is_sequence(b) && a.is_integral()) return repeat(runtime, b, a.integer());
    if (is_sequence(a) || is_sequence(b)) {
      const Value& other = is_sequence(a) ? b : a;
      fail(Fault::Type, "can't multiply sequence by non-int of type '" + type_name(other) + "'");
    }
  }
  unsupported(op == "**" ? "** or pow()" : op, a, b);
}

Value negate(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is(Type::Float)) return -value.real();
  if (!value.is_integral()) {
    fail(Fault::Type, "bad operand type for unary -: '" + type_name(value) + "'");
  }
  if (value.integer() == std::numeric_limits<int64_t>::min()) too_large();
  return -value.integer();
}

Value plus(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_number()) {
    fail(Fault::Type, "bad operand type for unary +: '" + type_name(value) + "'");
  }
  return value.is(Type::Bool) ? Value(value.integer()) : value;
}

bool ordered(Runtime& runtime, const Value& a, const Value& b, std::string_view op) {
  runtime.heap().step();
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  if (a.is_integral() && b.is_integral()) return apply_order(op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) {
    // A long double holds every 64-bit integer and every double.
    const auto wide = [](const Value& v) {
      return v.is(Type::Float) ? static_cast<long double>(v.real())
                               : static_cast<long double>(v.integer());
    };
    return apply_order(op, wide(a), wide(b));
  }
  if (a.is_string() && b.is_string()) return apply_order(op, a.text(), b.text());
  if (a.is_list() && a.type() == b.type()) {
    const Runtime::Recursion recursion(runtime);
    const size_t common = std::min(a.items().size(), b.items().size());
    for (size_t i = 0; i < common; ++i) {
      if (!equal(a.items()[i], b.items()[i]))
        return ordered(runtime, a.items()[i], b.items()[i], op);
    }
    return apply_order(op, a.items().size(), b.items().size());
  }
  fail(Fault::Type, "'" + std::string(op) + "' not supported between instances of '" +
                        type_name(a) + "' and '" + type_name(b) + "'");
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      fail(Fault::Type, "'in <string>' requires string as left operand, not " + type_name(item));
    }
    runtime.heap().touch(container.text().size());
    return find_text(container.text(), item.text()) != std::string_view::npos;
  }
  if (const auto* dict = container.as<DictObject>()) return dict->find(item) != nullptr;
  if (const auto* view = container.as<DictView>();
      view != nullptr && view->part() == DictView::Part::Keys) {
    return view->dict().find(item) != nullptr;
  }
  if (const auto* range = container.as<Range>(); range != nullptr && item.is_integral()) {
    return range->contains(item.integer());
  }
  if (!is_iterable(container)) {
    fail(Fault::Type, "argument of type '" + type_name(container) + "' is not iterable");
  }
  if (container.is_list()) {
    runtime.heap().step(static_cast<int64_t>(container.items().size()));
    for (const Value& candidate : container.items()) {
      if (equal(candidate, item)) return true;
    }
    return false;
  }
  for (const Value& candidate : iterate(runtime, container)) {
    if (equal(candidate, item)) return true;
  }
  return false;
}

}  // namespace mlxcel::text::jinja

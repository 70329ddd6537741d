// The tests of the language: what may stand after `is`.
#include <array>

#include "text/jinja_objects.h"
#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

namespace {

const Value& argument(std::string_view test, const Args& args) {
  if (args.positional.size() == 1 && args.keyword.empty()) return args.positional[0];
  if (args.positional.empty() && args.keyword.size() == 1) return args.keyword[0].second;
  fail(Fault::Type, "the test '" + std::string(test) + "' takes one argument");
}

bool remainder_is(Runtime& runtime, const Value& value, const Value& divisor, int64_t expected) {
  return equal(binary(runtime, "%", value, divisor), Value(expected));
}

bool is_odd(Runtime& r, const Value& v, Args&) { return remainder_is(r, v, Value(2), 1); }
bool is_even(Runtime& r, const Value& v, Args&) { return remainder_is(r, v, Value(2), 0); }
bool is_divisible(Runtime& r, const Value& v, Args& a) {
  return remainder_is(r, v, argument("divisibleby", a), 0);
}
bool is_defined(Runtime&, const Value& v, Args&) { return !v.is_undefined(); }
bool is_undefined(Runtime&, const Value& v, Args&) { return v.is_undefined(); }
bool is_filter(Runtime&, const Value& v, Args&) {
  return v.is_string() && find_filter(v.text()) != nullptr;
}
bool is_test(Runtime&, const Value& v, Args&) {
  return v.is_string() && find_test(v.text()) != nullptr;
}
bool is_none(Runtime&, const Value& v, Args&) { return v.is_none(); }
bool is_boolean(Runtime&, const Value& v, Args&) { return v.is(Type::Bool); }
bool is_true(Runtime&, const Value& v, Args&) { return v.is(Type::Bool) && v.integer() != 0; }
bool is_false(Runtime&, const Value& v, Args&) { return v.is(Type::Bool) && v.integer() == 0; }
bool is_integer(Runtime&, const Value& v, Args&) { return v.is(Type::Int); }
bool is_float(Runtime&, const Value& v, Args&) { return v.is(Type::Float); }
bool is_number(Runtime&, const Value& v, Args&) { return v.is_number(); }
bool is_string(Runtime&, const Value& v, Args&) { return v.is_string(); }
bool is_mapping(Runtime&, const Value& v, Args&) { return v.is_dict(); }
bool is_escaped(Runtime&, const Value& v, Args&) { return v.is_markup(); }
bool is_iterable_value(Runtime&, const Value& v, Args&) { return is_iterable(v); }

bool case_test(Runtime& runtime, const Value& value, std::string_view method) {
  Args none;
  return truth(find_string_method(method)(runtime, runtime.string(to_str(runtime, value)), none));
}
bool is_lower_text(Runtime& r, const Value& v, Args&) { return case_test(r, v, "islower"); }
bool is_upper_text(Runtime& r, const Value& v, Args&) { return case_test(r, v, "isupper"); }

bool is_sequence(Runtime&, const Value& v, Args&) {
  if (v.is(Type::Object)) return v.object()->length() >= 0 && v.object()->indexable();
  // An undefined value has a length and fails only when it is indexed.
  return v.is_list() || v.is_string() || v.is_dict() || v.is_undefined();
}

bool is_callable(Runtime&, const Value& v, Args&) {
  // Undefined defines __call__, if only to fail in it.
  return v.is_undefined() || (v.is(Type::Object) && v.object()->callable());
}

bool is_same(Runtime&, const Value& v, Args& args) {
  const Value& other = argument("sameas", args);
  if (v.type() != other.type()) return false;
  switch (v.type()) {
    case Type::None:
      return true;
    case Type::Bool:
      return v.integer() == other.integer();
    // Python keeps one object for each small integer.
    case Type::Int:
      return v.integer() == other.integer() && v.integer() >= -5 && v.integer() <= 256;
    case Type::Float:
      return false;
    default:
      return v.object() != nullptr && v.object() == other.object();
  }
}

bool is_in(Runtime& r, const Value& v, Args& a) { return contains(r, argument("in", a), v); }
bool is_eq(Runtime&, const Value& v, Args& a) { return equal(v, argument("eq", a)); }
bool is_ne(Runtime&, const Value& v, Args& a) { return !equal(v, argument("ne", a)); }
bool is_gt(Runtime& r, const Value& v, Args& a) { return ordered(r, v, argument("gt", a), ">"); }
bool is_ge(Runtime& r, const Value& v, Args& a) { return ordered(r, v, argument("ge", a), ">="); }
bool is_lt(Runtime& r, const Value& v, Args& a) { return ordered(r, v, argument("lt", a), "<"); }
bool is_le(Runtime& r, const Value& v, Args& a) { return ordered(r, v, argument("le", a), "<="); }

constexpr NamedTest kTests[] = {
    {"!=", is_ne},
    {"<", is_lt},
    {"<=", is_le},
    {"==", is_eq},
    {">", is_gt},
    {">=", is_ge},
    {"boolean", is_boolean},
    {"callable", is_callable},
    {"defined", is_defined},
    {"divisibleby", is_divisible},
    {"eq", is_eq},
    {"equalto", is_eq},
    {"escaped", is_escaped},
    {"even", is_even},
    {"false", is_false},
    {"filter", is_filter},
    {"float", is_float},
    {"ge", is_ge},
    {"greaterthan", is_gt},
    {"gt", is_gt},
    {"in", is_in},
    {"integer", is_integer},
    {"iterable", is_iterable_value},
    {"le", is_le},
    {"lessthan", is_lt},
    {"lower", is_lower_text},
    {"lt", is_lt},
    {"mapping", is_mapping},
    {"ne", is_ne},
    {"none", is_none},
    {"number", is_number},
    {"odd", is_odd},
    {"sameas", is_same},
    {"sequence", is_sequence},
    {"string", is_string},
    {"test", is_test},
    {"true", is_true},
    {"undefined", is_undefined},
    {"upper", is_upper_text},
};

}  // namespace

TestFn find_test(std::string_view name) {
  for (const NamedTest& test : kTests) {
    if (test.name == name) return test.function;
  }
  return nullptr;
}

}  // namespace mlxcel::text::jinja

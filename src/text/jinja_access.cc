// Attributes, items and slices, with the order of look-ups and the prohibitions of Jinja's
// immutable sandbox.
#include <algorithm>
#include <optional>

#include "text/jinja_objects.h"
#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

namespace {

std::string object_name(const Value& value) {
  if (value.is_none()) return "None";
  return type_name(value) + " object";
}

Value unsafe(Runtime& runtime, const Value& object, std::string_view name) {
  return make_undefined(&runtime.heap(),
                        "access to attribute " + repr_string(name) + " of '" + type_name(object) +
                            "' object is unsafe.",
                        Fault::Security);
}

Value missing(Runtime& runtime, const Value& object, const Value& key) {
  if (key.is_string()) {
    return runtime.undefined("'" + object_name(object) + "' has no attribute " +
                             repr_string(key.text()));
  }
  return runtime.undefined(object_name(object) + " has no element " + to_repr(runtime, key));
}

MethodFn find_method(const Value& object, std::string_view name) {
  switch (object.type()) {
    case Type::String:
      return find_string_method(name);
    case Type::List:
    case Type::Tuple:
      return find_list_method(name, object.is(Type::Tuple));
    case Type::Dict:
      return find_dict_method(name);
    case Type::Bool:
    case Type::Int:
    case Type::Float:
      return find_number_method(object, name);
    default:
      return nullptr;
  }
}

/// Python's getattr(): true when the object has the attribute, safe or not.
bool python_attribute(Runtime& runtime, const Value& object, std::string_view name, Value& out) {
  if (is_mutating_method(object, name) || (name.starts_with("__") && name.ends_with("__"))) {
    out = unsafe(runtime, object, name);
    return true;
  }
  if (object.is(Type::Object)) return object.object()->attribute(runtime, name, out);
  if (object.is(Type::Tuple) && object.as<ListObject>()->group() &&
      (name == "grouper" || name == "list")) {
    out = object.items()[name == "list" ? 1 : 0];
    return true;
  }
  if (object.is_number() &&
      (name == "real" || name == "imag" || name == "numerator" || name == "denominator")) {
    const bool fraction = name == "numerator" || name == "denominator";
    if (fraction && object.is(Type::Float)) return false;
    const Value whole = object.is(Type::Bool) ? Value(object.integer()) : object;
    const Value zero = object.is(Type::Float) ? Value(0.0) : Value(0);
    out = name == "imag" ? zero : name == "denominator" ? Value(1) : whole;
    return true;
  }
  const MethodFn method = find_method(object, name);
  if (method == nullptr) return false;
  out = make_method(runtime, object, name, method);
  return true;
}

std::optional<int64_t> position(int64_t index, int64_t length) {
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  return index;
}

Value character(Runtime& runtime, const Value& text, int64_t index) {
  const std::string_view bytes = text.text();
  std::string out;
  if (text.as<StringObject>()->ascii()) {
    out = bytes.substr(static_cast<size_t>(index), 1);
  } else {
    runtime.heap().touch(bytes.size());
    const size_t begin = byte_offset(bytes, static_cast<size_t>(index));
    const std::string_view rest = bytes.substr(begin);
    out = rest.substr(0, byte_offset(rest, 1));
  }
  return make_string(&runtime.heap(), std::move(out), text.is_markup());
}

/// Python's obj[key] for a key that is no slice; false for TypeError and LookupError.
bool python_item(Runtime& runtime, const Value& object, const Value& key, Value& out) {
  if (object.is_dict()) {
    if (key.is(Type::List) || key.is_dict()) return false;
    const Value* value = object.as<DictObject>()->find(key);
    if (value != nullptr) out = *value;
    return value != nullptr;
  }
  const bool sequence = object.is_list() || object.is_string() ||
                        (object.is(Type::Object) && object.object()->indexable());
  if (!sequence || !key.is_integral()) return false;
  const auto at = position(key.integer(), length(runtime, object));
  if (!at) return false;
  if (object.is_list()) {
    out = object.items()[static_cast<size_t>(*at)];
  } else if (object.is_string()) {
    out = character(runtime, object, *at);
  } else {
    out = object.object()->at(runtime, *at);
  }
  return true;
}

int64_t slice_index(const Value& value) {
  if (!value.is_integral()) {
    fail(Fault::Type, "slice indices must be integers or None or have an __index__ method");
  }
  return value.integer();
}

struct Slice {
  int64_t start, count, step;
};

/// Python's slice.indices() over `length` items.
Slice resolve(const Value& start, const Value& stop, const Value& step, int64_t length) {
  const int64_t stride = step.is_none() ? 1 : slice_index(step);
  if (stride == 0) fail(Fault::Value, "slice step cannot be zero");
  const bool forward = stride > 0;
  const int64_t low = forward ? 0 : -1, high = forward ? length : length - 1;
  const auto clip = [&](const Value& bound, int64_t fallback) {
    if (bound.is_none()) return fallback;
    const int64_t i = slice_index(bound);
    return i < -length ? low : std::clamp(i < 0 ? i + length : i, low, high);
  };
  const int64_t first = clip(start, forward ? low : high);
  const int64_t last = clip(stop, forward ? high : low);
  const int64_t span = forward ? last - first : first - last;
  if (span <= 0) return {first, 0, stride};
  // |stride| as unsigned, so that the smallest integer has a magnitude too.
  const uint64_t magnitude =
      forward ? static_cast<uint64_t>(stride) : uint64_t{0} - static_cast<uint64_t>(stride);
  const uint64_t count = (static_cast<uint64_t>(span) - 1) / magnitude + 1;
  return {first, static_cast<int64_t>(count), count > 1 ? stride : 1};
}

Value slice_text(Runtime& runtime, const Value& text, const Slice& slice) {
  const std::string_view bytes = text.text();
  runtime.heap().touch(bytes.size());
  std::string out;
  if (text.as<StringObject>()->ascii()) {
    if (slice.step == 1) {
      out = bytes.substr(static_cast<size_t>(slice.start), static_cast<size_t>(slice.count));
    } else {
      for (int64_t i = 0; i < slice.count; ++i) {
        out += bytes[static_cast<size_t>(slice.start + i * slice.step)];
      }
    }
  } else if (slice.step == 1) {
    const std::string_view rest =
        bytes.substr(byte_offset(bytes, static_cast<size_t>(slice.start)));
    out = rest.substr(0, byte_offset(rest, static_cast<size_t>(slice.count)));
  } else {
    const Charge room(&runtime.heap(), 8 * bytes.size());
    const std::u32string all = decode(bytes);
    std::u32string picked;
    for (int64_t i = 0; i < slice.count; ++i) {
      picked += all[static_cast<size_t>(slice.start + i * slice.step)];
    }
    out = encode(picked);
  }
  return make_string(&runtime.heap(), std::move(out), text.is_markup());
}

}  // namespace

Value get_attribute(Runtime& runtime, const Value& object, const Value& name) {
  if (object.is_undefined()) fail_undefined(object);
  Value out;
  if (python_attribute(runtime, object, name.text(), out)) return out;
  if (python_item(runtime, object, name, out)) return out;
  return missing(runtime, object, name);
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  if (object.is_undefined()) fail_undefined(object);
  Value out;
  if (python_item(runtime, object, key, out)) return out;
  if (key.is_string() && python_attribute(runtime, object, key.text(), out)) return out;
  return missing(runtime, object, key);
}

Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
                const Value& step) {
  if (object.is_undefined()) fail_undefined(object);
  const auto* range = object.as<Range>();
  if (!object.is_list() && !object.is_string() && range == nullptr) {
    fail(Fault::Type, object.is_dict() ? "unhashable type: 'slice'"
                                       : "'" + type_name(object) + "' object is not subscriptable");
  }
  const Slice slice = resolve(start, stop, step, length(runtime, object));
  if (object.is_string()) return slice_text(runtime, object, slice);
  if (range != nullptr) {
    const int64_t first = range->start() + slice.start * range->step();
    const int64_t stride = range->step() * slice.step;
    return {Type::Object,
            std::make_shared<Range>(&runtime.heap(), first, first + slice.count * stride, stride)};
  }
  ListBuilder out(runtime);
  for (int64_t i = 0; i < slice.count; ++i) {
    out.push(object.items()[static_cast<size_t>(slice.start + i * slice.step)]);
  }
  return object.is(Type::Tuple) ? out.tuple() : out.list();
}

}  // namespace mlxcel::text::jinja

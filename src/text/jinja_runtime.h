// What filters, tests, methods and operators see of a rendering: the budget, the clock, calls into
// the interpreter, and helpers to walk values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_value.h"

namespace mlxcel::text::jinja {

class Runtime {
 public:
  Runtime(Heap& heap, int64_t now_unix, int max_depth)
      : heap_(heap), now_unix_(now_unix), max_depth_(max_depth) {}
  virtual ~Runtime() {
    for (const Ref& object : kept_) object->clear();
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Heap& heap() { return heap_; }
  int64_t now_unix() const { return now_unix_; }
  bool autoescape() const { return autoescape_; }
  void set_autoescape(bool on) { autoescape_ = on; }

  Value string(std::string text) { return make_string(&heap_, std::move(text)); }
  Value markup(std::string text) { return make_string(&heap_, std::move(text), true); }
  Value list(std::vector<Value> items) { return make_list(&heap_, std::move(items)); }
  Value tuple(std::vector<Value> items) { return make_tuple(&heap_, std::move(items)); }
  Value undefined(std::string message) { return make_undefined(&heap_, std::move(message)); }

  /// Keeps an object that may become part of a circle until the end, when it is cleared.
  void keep(Ref object) { kept_.push_back(std::move(object)); }

  /// Counts one level of recursion while alive; throws Limit when there are too many.
  class Recursion {
   public:
    explicit Recursion(Runtime& runtime, int cost = 1);
    ~Recursion() { runtime_.depth_ -= cost_; }
    Recursion(const Recursion&) = delete;
    Recursion& operator=(const Recursion&) = delete;

   private:
    Runtime& runtime_;
    int cost_;
  };

 private:
  Heap& heap_;
  int64_t now_unix_;
  int max_depth_;
  int depth_ = 0;
  bool autoescape_ = false;
  std::vector<Ref> kept_;
};

/// A list under construction whose growth is charged as it happens.
class ListBuilder {
 public:
  explicit ListBuilder(Runtime& runtime) : runtime_(runtime), charge_(&runtime.heap()) {}
  void push(Value value) {
    runtime_.heap().step();
    charge_.add(sizeof(Value));
    items_.push_back(std::move(value));
  }
  std::vector<Value>& items() { return items_; }
  Value list() { return runtime_.list(std::move(items_)); }
  Value tuple() { return runtime_.tuple(std::move(items_)); }
  /// The items as a generator: iterable once, without a length.
  Value generator();

 private:
  Runtime& runtime_;
  Charge charge_;
  std::vector<Value> items_;
};

/// A text under construction whose growth is charged as it happens.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(runtime), charge_(&runtime.heap()) {}
  void append(std::string_view text);
  void append(char c) { append(std::string_view(&c, 1)); }
  /// Appends `count` copies; the size is checked before anything is allocated.
  void repeat(std::string_view text, int64_t count);
  std::string take() { return std::move(text_); }
  const std::string& text() const { return text_; }

 private:
  Runtime& runtime_;
  Charge charge_;
  std::string text_;
  size_t charged_ = 0;
};

/// bool(), len() (throws Type), iter() as a list, list(iter(...)).
bool truth(const Value& value);
int64_t length(Runtime& runtime, const Value& value);
bool has_length(const Value& value);
bool is_iterable(const Value& value);
std::vector<Value> iterate(Runtime& runtime, const Value& value);

/// str() and repr() as Python prints them. Undefined prints as nothing.
void append_str(Runtime& runtime, TextBuilder& out, const Value& value);
std::string to_str(Runtime& runtime, const Value& value);
void append_repr(Runtime& runtime, TextBuilder& out, const Value& value);
std::string to_repr(Runtime& runtime, const Value& value);
std::string repr_string(std::string_view text);
/// str() that keeps a Markup string as it is.
Value soft_str(Runtime& runtime, const Value& value);
/// repr() of a float: the shortest digits that read back the same.
std::string float_repr(double value);
/// HTML escapes of & < > ' ", or the value itself when it is Markup.
std::string escape_html(std::string_view text);
Value escape(Runtime& runtime, const Value& value);

/// `obj.name` and `obj[key]` with the sandbox's rules; undefined when there is none.
Value get_attribute(Runtime& runtime, const Value& object, const Value& name);
Value get_item(Runtime& runtime, const Value& object, const Value& key);
Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
                const Value& step);

/// Operators. `op` is one of + - * / // % **.
Value binary(Runtime& runtime, std::string_view op, const Value& a, const Value& b);
Value negate(const Value& value);
Value plus(const Value& value);
/// `a op b` for op < <= > >=. Throws Type for values that have no order.
bool ordered(Runtime& runtime, const Value& a, const Value& b, std::string_view op = "<");
bool contains(Runtime& runtime, const Value& container, const Value& item);

Value call(Runtime& runtime, const Value& callee, Args& args);

}  // namespace mlxcel::text::jinja

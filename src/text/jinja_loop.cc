#include "text/jinja_loop.h"

#include <algorithm>

#include "text/jinja_objects.h"

namespace mlxcel::text::jinja {

namespace {

Value loop_cycle(Runtime&, const Value& self, Args& args) {
  return self.as<Loop>()->cycle(args.positional);
}

Value loop_changed(Runtime& runtime, const Value& self, Args& args) {
  return self.as<Loop>()->changed(runtime, args.positional);
}

}  // namespace

Macro::Macro(Interpreter& interpreter, const Stmt& stmt, ScopePtr closure, std::string name)
    : Object(&interpreter.heap()),
      interpreter_(interpreter),
      stmt_(stmt),
      closure_(std::move(closure)),
      name_(std::move(name)) {}

std::string Macro::repr(Runtime&) const {
  return "<Macro " + (name_.empty() ? std::string("anonymous") : repr_string(name_)) + ">";
}

Value Macro::call(Runtime& runtime, Args& args) {
  std::string text = interpreter_.call_macro(stmt_, closure_, name_.empty() ? "None" : name_, args);
  return make_string(&runtime.heap(), std::move(text), runtime.autoescape());
}

bool Macro::attribute(Runtime& runtime, std::string_view name, Value& out) {
  const Signature& signature = stmt_.signature;
  if (name == "name") {
    out = name_.empty() ? Value::none() : runtime.string(name_);
  } else if (name == "arguments") {
    ListBuilder names(runtime);
    for (const int param : signature.params) {
      names.push(runtime.string(interpreter_.program().names[static_cast<size_t>(param)]));
    }
    out = names.tuple();
  } else if (name == "catch_kwargs") {
    out = signature.uses_kwargs;
  } else if (name == "catch_varargs") {
    out = signature.uses_varargs;
  } else if (name == "caller") {
    out = signature.uses_caller;
  } else if (name == "explicit_caller") {
    out = signature.declares_caller;
  } else {
    return false;
  }
  return true;
}

Loop::Loop(Interpreter& interpreter, const Stmt& stmt, ScopePtr scope, std::vector<Value> items,
           int depth0)
    : Object(&interpreter.heap(), 96 + items.capacity() * sizeof(Value)),
      interpreter_(interpreter),
      stmt_(stmt),
      scope_(std::move(scope)),
      items_(std::move(items)),
      depth0_(depth0) {
  for (const Value& item : items_) contain(item);
}

std::string Loop::repr(Runtime&) const {
  return "<LoopContext " + std::to_string(index_ + 1) + "/" + std::to_string(items_.size()) + ">";
}

Value Loop::call(Runtime& runtime, Args& args) {
  if (!stmt_.recursive) {
    fail(Fault::Type, "The loop must have the 'recursive' marker to be called recursively.");
  }
  const Bound bound("loop", args, {"iterable"}, 1);
  const Runtime::Recursion recursion(runtime, 4);
  std::string text = interpreter_.loop_body(stmt_, scope_, bound[0], depth0_ + 1);
  return make_string(&runtime.heap(), std::move(text), runtime.autoescape());
}

bool Loop::attribute(Runtime& runtime, std::string_view name, Value& out) {
  const auto at = static_cast<int64_t>(index_), size = static_cast<int64_t>(items_.size());
  if (name == "index") {
    out = at + 1;
  } else if (name == "index0") {
    out = at;
  } else if (name == "revindex") {
    out = size - at;
  } else if (name == "revindex0") {
    out = size - at - 1;
  } else if (name == "first") {
    out = at == 0;
  } else if (name == "last") {
    out = at + 1 >= size;
  } else if (name == "length") {
    out = size;
  } else if (name == "depth") {
    out = depth0_ + 1;
  } else if (name == "depth0") {
    out = depth0_;
  } else if (name == "previtem") {
    out =
        at > 0 && at <= size ? items_[index_ - 1] : runtime.undefined("there is no previous item");
  } else if (name == "nextitem") {
    out = at + 1 < size ? items_[index_ + 1] : runtime.undefined("there is no next item");
  } else if (name == "cycle" || name == "changed") {
    out = make_method(runtime, Value(Type::Object, shared_from_this()), name,
                      name == "cycle" ? loop_cycle : loop_changed);
  } else {
    return false;
  }
  return true;
}

Value Loop::cycle(const std::vector<Value>& values) const {
  if (values.empty()) fail(Fault::Type, "no items for cycling given");
  return values[index_ % values.size()];
}

Value Loop::changed(Runtime& runtime, const std::vector<Value>& values) {
  Value now = runtime.tuple(values);
  if (last_changed_.is_undefined()) runtime.keep(shared_from_this());
  if (!last_changed_.is_undefined() && equal(last_changed_, now)) return false;
  last_changed_ = std::move(now);
  return true;
}

void Interpreter::bind_parameters(const Stmt& stmt, const ScopePtr& scope, const std::string& name,
                                  Args& args) {
  const Signature& signature = stmt.signature;
  const size_t count = signature.params.size();
  const std::string shown = name == "None" ? name : repr_string(name);
  const auto take_keyword = [&](const std::string& key, Value& out) {
    const auto found = std::find_if(args.keyword.begin(), args.keyword.end(),
                                    [&](const auto& entry) { return entry.first == key; });
    if (found == args.keyword.end()) return false;
    out = std::move(found->second);
    args.keyword.erase(found);
    return true;
  };
  std::vector<Value> values(count);
  std::vector<bool> given(count);
  for (size_t i = 0; i < count; ++i) {
    given[i] = i < args.positional.size();
    if (given[i]) {
      values[i] = args.positional[i];
    } else {
      given[i] = take_keyword(program_.names[static_cast<size_t>(signature.params[i])], values[i]);
    }
  }
  if (signature.uses_caller && !signature.declares_caller) {
    Value caller;
    if (!take_keyword("caller", caller)) caller = undefined("No caller defined");
    scope->set(program_.caller_name, std::move(caller));
  }
  if (signature.uses_kwargs) {
    auto rest = std::make_shared<DictObject>(&heap());
    for (auto& [key, value] : args.keyword) rest->set(string(key), value);
    scope->set(program_.kwargs_name, {Type::Dict, rest});
  } else if (!args.keyword.empty()) {
    fail(Fault::Type, "macro " + shown + " takes no keyword argument " +
                          repr_string(args.keyword.front().first));
  }
  if (signature.uses_varargs) {
    const auto skip = static_cast<ptrdiff_t>(std::min(count, args.positional.size()));
    scope->set(program_.varargs_name,
               tuple(std::vector<Value>(args.positional.begin() + skip, args.positional.end())));
  } else if (args.positional.size() > count) {
    fail(Fault::Type,
         "macro " + shown + " takes not more than " + std::to_string(count) + " argument(s)");
  }
  const size_t first_default = count - signature.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    const int param = signature.params[i];
    if (given[i]) {
      scope->set(param, std::move(values[i]));
    } else if (i >= first_default) {
      scope->set(param, eval(*signature.defaults[i - first_default], scope));
    } else {
      scope->set(param, undefined("parameter '" + program_.names[static_cast<size_t>(param)] +
                                  "' was not provided"));
    }
  }
}

std::string Interpreter::call_macro(const Stmt& stmt, const ScopePtr& closure,
                                    const std::string& name, Args& args) {
  const Recursion recursion(*this, 4);
  const auto scope = std::make_shared<Scope>(heap(), closure);
  bind_parameters(stmt, scope, name, args);
  TextBuilder text(*this);
  exec_body(stmt.body, scope, text);
  return text.take();
}

}  // namespace mlxcel::text::jinja

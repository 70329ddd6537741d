#include "text/jinja_interpreter.h"

#include "base/utf8.h"
#include "text/jinja_loop.h"
#include "text/jinja_objects.h"

namespace mlxcel::text::jinja {

namespace {

constexpr int kMaxJsonDepth = 190;

/// Puts a flag back at the end of a scope, whatever happens.
class Autoescape {
 public:
  Autoescape(Runtime& runtime, bool on) : runtime_(runtime), old_(runtime.autoescape()) {
    runtime.set_autoescape(on);
  }
  ~Autoescape() { runtime_.set_autoescape(old_); }
  Autoescape(const Autoescape&) = delete;
  Autoescape& operator=(const Autoescape&) = delete;

 private:
  Runtime& runtime_;
  bool old_;
};

}  // namespace

Value from_json(Heap& heap, const Json& json, int depth) {
  if (depth > kMaxJsonDepth) fail(Fault::Limit, "the data of the template is nested too deeply");
  heap.step();
  switch (json.kind()) {
    case Json::Kind::Null:
      return Value::none();
    case Json::Kind::Bool:
      return json.as_bool();
    case Json::Kind::Int:
      return json.as_int();
    case Json::Kind::Real:
      return json.as_double();
    case Json::Kind::String: {
      const std::string& text = json.as_string();
      if (!utf8::is_valid(text)) return make_string(&heap, utf8::repair(text));
      return {Type::String, std::make_shared<StringObject>(&heap, std::string_view(text))};
    }
    case Json::Kind::Array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json.as_array()) items.push_back(from_json(heap, item, depth + 1));
      return make_list(&heap, std::move(items));
    }
    case Json::Kind::Object: {
      auto dict = std::make_shared<DictObject>(&heap);
      for (const auto& [key, value] : json.as_object()) {
        dict->set(make_string(&heap, utf8::repair(key)), from_json(heap, value, depth + 1));
      }
      return {Type::Dict, dict};
    }
  }
  return Value::none();
}

void Scope::set(int name, Value value) {
  for (auto& [key, current] : variables_) {
    if (key == name) {
      current = std::move(value);
      return;
    }
  }
  variables_.emplace_back(name, std::move(value));
}

const Value* Scope::find(int name) const {
  for (const auto& [key, value] : variables_) {
    if (key == name) return &value;
  }
  return nullptr;
}

Interpreter::Interpreter(const Program& program, const Json& context, Heap& heap, int64_t now_unix,
                         int max_depth)
    : Runtime(heap, now_unix, max_depth),
      program_(program),
      context_(context),
      root_(std::make_shared<Scope>(heap, nullptr)),
      globals_(program.names.size()),
      global_known_(program.names.size()) {}

Interpreter::~Interpreter() {
  // A macro and the scope that holds it refer to each other.
  for (const ScopePtr& scope : captured_scopes_) scope->clear();
}

std::string Interpreter::run() {
  TextBuilder out(*this);
  exec_body(program_.body, root_, out);
  return out.take();
}

const Value& Interpreter::global(int name) {
  const auto i = static_cast<size_t>(name);
  if (!global_known_[i]) {
    const std::string& text = program_.names[i];
    const Json* given = context_.find(text);
    globals_[i] = given != nullptr ? from_json(heap(), *given) : find_global(*this, text);
    if (given == nullptr && globals_[i].is_undefined()) {
      globals_[i] = undefined("'" + text + "' is undefined");
    }
    global_known_[i] = true;
  }
  return globals_[i];
}

Flow Interpreter::exec_body(const Body& body, const ScopePtr& scope, TextBuilder& out) {
  for (const StmtPtr& stmt : body) {
    const Flow flow = exec(*stmt, scope, out);
    if (flow != Flow::Normal) return flow;
  }
  return Flow::Normal;
}

Flow Interpreter::exec(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
  heap().step();
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::Text:
      out.append(stmt.text);
      break;
    case StmtKind::Output:
      exec_output(stmt, scope, out);
      break;
    case StmtKind::Set:
      assign(*stmt.exprs[0], scope, eval(*stmt.exprs[1], scope));
      break;
    case StmtKind::SetBlock:
      return exec_set_block(stmt, scope);
    case StmtKind::If:
      return exec_if(stmt, scope, out);
    case StmtKind::For: {
      if (!stmt.recursive) {
        return exec_for(stmt, scope, eval(*stmt.exprs[1], scope), 0, out);
      }
      out.append(loop_body(stmt, scope, eval(*stmt.exprs[1], scope), 0));
      break;
    }
    case StmtKind::With:
      return exec_with(stmt, scope, out);
    case StmtKind::Macro: {
      const std::string& name = program_.names[static_cast<size_t>(stmt.name)];
      scope->set(stmt.name, make_macro(stmt, scope, name));
      break;
    }
    case StmtKind::CallBlock:
      exec_call_block(stmt, scope, out);
      break;
    case StmtKind::FilterBlock:
      return exec_filter_block(stmt, scope, out);
    case StmtKind::Generation:
    case StmtKind::Block: {
      const Recursion recursion(*this);
      const bool isolated = stmt.kind == StmtKind::Block && !stmt.recursive;
      exec_body(stmt.body, std::make_shared<Scope>(heap(), isolated ? root_ : scope), out);
      break;
    }
    case StmtKind::Autoescape:
      return exec_autoescape(stmt, scope, out);
    case StmtKind::Break:
      return Flow::Break;
    case StmtKind::Continue:
      return Flow::Continue;
    case StmtKind::Refused:
      fail(Fault::Unsupported, "'" + stmt.text +
                                   "' is not available: a chat template stands alone and there "
                                   "are no other templates to load");
  }
  return Flow::Normal;
}

void Interpreter::write(TextBuilder& out, const Value& value) {
  append_str(*this, out, autoescape() ? escape(*this, value) : value);
}

void Interpreter::exec_output(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
  for (const ExprPtr& expr : stmt.exprs) write(out, eval(*expr, scope));
}

Value Interpreter::captured(TextBuilder& text) {
  return make_string(&heap(), text.take(), autoescape());
}

Flow Interpreter::exec_set_block(const Stmt& stmt, const ScopePtr& scope) {
  const Recursion recursion(*this);
  const auto inner = std::make_shared<Scope>(heap(), scope);
  TextBuilder text(*this);
  const Flow flow = exec_body(stmt.body, inner, text);
  if (flow != Flow::Normal) return flow;
  Value value = captured(text);
  if (stmt.exprs[1] != nullptr) value = eval_filter(*stmt.exprs[1], inner, &value);
  assign(*stmt.exprs[0], scope, value);
  return Flow::Normal;
}

Flow Interpreter::exec_filter_block(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
  const Recursion recursion(*this);
  const auto inner = std::make_shared<Scope>(heap(), scope);
  TextBuilder text(*this);
  const Flow flow = exec_body(stmt.body, inner, text);
  if (flow != Flow::Normal) return flow;
  const Value value = captured(text);
  append_str(*this, out, eval_filter(*stmt.exprs[0], inner, &value));
  return Flow::Normal;
}

Flow Interpreter::exec_if(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
  const Recursion recursion(*this);
  for (const Branch& branch : stmt.branches) {
    if (branch.condition == nullptr || truth(eval(*branch.condition, scope))) {
      return exec_body(branch.body, scope, out);
    }
  }
  return Flow::Normal;
}

std::vector<Value> Interpreter::loop_items(const Stmt& stmt, const ScopePtr& scope,
                                           const Value& iterable) {
  std::vector<Value> items = iterate(*this, iterable);
  if (stmt.exprs[2] == nullptr) return items;
  ListBuilder kept(*this);
  for (const Value& item : items) {
    const auto inner = std::make_shared<Scope>(heap(), scope);
    assign(*stmt.exprs[0], inner, item);
    if (truth(eval(*stmt.exprs[2], inner))) kept.push(item);
  }
  return std::move(kept.items());
}

Flow Interpreter::exec_for(const Stmt& stmt, const ScopePtr& scope, const Value& iterable,
                           int depth0, TextBuilder& out) {
  const Recursion recursion(*this);
  const auto loop =
      std::make_shared<Loop>(*this, stmt, scope, loop_items(stmt, scope, iterable), depth0);
  if (loop->size() == 0 && !stmt.branches.empty()) {
    return exec_body(stmt.branches[0].body, std::make_shared<Scope>(heap(), scope), out);
  }
  ScopePtr inner;
  for (; loop->index() < loop->size(); loop->advance()) {
    heap().step();
    // A scope that a macro kept must not be used again.
    if (inner == nullptr || inner.use_count() > 1) {
      inner = std::make_shared<Scope>(heap(), scope);
    } else {
      inner->clear();
    }
    inner->set(program_.loop_name, {Type::Object, loop});
    assign(*stmt.exprs[0], inner, loop->current());
    if (exec_body(stmt.body, inner, out) == Flow::Break) break;
  }
  return Flow::Normal;
}

std::string Interpreter::loop_body(const Stmt& stmt, const ScopePtr& scope, const Value& iterable,
                                   int depth0) {
  TextBuilder text(*this);
  exec_for(stmt, scope, iterable, depth0, text);
  return text.take();
}

Flow Interpreter::exec_with(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
  const Recursion recursion(*this);
  const auto inner = std::make_shared<Scope>(heap(), scope);
  for (size_t i = 0; i < stmt.exprs.size(); i += 2) {
    assign(*stmt.exprs[i], inner, eval(*stmt.exprs[i + 1], scope));
  }
  return exec_body(stmt.body, inner, out);
}

Flow Interpreter::exec_autoescape(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
  const Recursion recursion(*this);
  const Autoescape mode(*this, truth(eval(*stmt.exprs[0], scope)));
  return exec_body(stmt.body, std::make_shared<Scope>(heap(), scope), out);
}

void Interpreter::exec_call_block(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
  const Value caller = make_macro(stmt, scope, "");
  append_str(*this, out, eval_call(*stmt.exprs[0], scope, &caller));
}

void Interpreter::assign(const Expr& target, const ScopePtr& scope, const Value& value) {
  switch (target.kind) {
    case ExprKind::Name:
      scope->set(target.name, value);
      return;
    case ExprKind::NamespaceRef: {
      Expr name;
      name.name = target.name;
      const Value object = eval_name(name, scope);
      auto* space = object.as<Namespace>();
      if (space == nullptr) {
        fail(Fault::Runtime, "cannot assign attribute on non-namespace object");
      }
      set_attribute(*this, *space, target.text, value);
      return;
    }
    default:
      break;
  }
  const Recursion recursion(*this);
  const std::vector<Value> parts = iterate(*this, value);
  const size_t expected = target.items.size();
  if (parts.size() < expected) {
    fail(Fault::Value, "not enough values to unpack (expected " + std::to_string(expected) +
                           ", got " + std::to_string(parts.size()) + ")");
  }
  if (parts.size() > expected) {
    fail(Fault::Value, "too many values to unpack (expected " + std::to_string(expected) + ")");
  }
  for (size_t i = 0; i < expected; ++i) assign(*target.items[i], scope, parts[i]);
}

Value Interpreter::make_macro(const Stmt& stmt, const ScopePtr& scope, const std::string& name) {
  captured_scopes_.push_back(scope);
  return {Type::Object, std::make_shared<Macro>(*this, stmt, scope, name)};
}

}  // namespace mlxcel::text::jinja

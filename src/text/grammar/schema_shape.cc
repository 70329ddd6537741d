#include "text/grammar/schema_shape.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "text/grammar/schema_keywords.h"

namespace mlxcel::text::grammar {

namespace {

constexpr int kMaxFrameDepth = 3000;
constexpr size_t kMaxSteps = 400'000;

bool contradictory(const Shape& s) {
  if (s.types == 0) return true;
  if ((s.types & ~uint8_t{kObject}) != 0) return false;
  return std::ranges::any_of(s.required, [&](const std::string& key) {
    return std::ranges::find(s.forbidden, key) != s.forbidden.end();
  });
}

}  // namespace

Literals merged(Literals a, const Literals& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end());
  a.erase(std::unique(a.begin(), a.end()), a.end());
  return a;
}

TypeBit type_of(const Json& value) {
  switch (value.kind()) {
    case Json::Kind::Null:
      return kNull;
    case Json::Kind::Bool:
      return value.as_bool() ? kTrue : kFalse;
    case Json::Kind::Int:
    case Json::Kind::Real:
      return kNumber;
    case Json::Kind::String:
      return kString;
    case Json::Kind::Array:
      return kArray;
    case Json::Kind::Object:
      break;
  }
  return kObject;
}

std::vector<Shape> ShapeMaker::expand(const Literals& literals) {
  steps_ = 0;
  Frame first;
  for (const Literal& l : literals)
    first.pending.push_back({.apply = {}, .literal = l, .choice = {}});
  // Conditions that hold narrow the shape before denials branch.
  std::stable_partition(first.pending.begin(), first.pending.end(),
                        [](const Step& s) { return !s.literal->positive; });
  std::vector<Shape> out;
  run(std::move(first), 0, out);
  return out;
}

void ShapeMaker::run(Frame frame, int depth, std::vector<Shape>& out) {
  if (depth > kMaxFrameDepth) {
    throw Error(Code::ResourceExhausted, "the schema combines too many alternatives");
  }
  std::vector<std::vector<Alternative>> choices;  // postponed until nothing else is pending
  while (!frame.pending.empty() || !choices.empty()) {
    if (++steps_ > kMaxSteps) {
      throw Error(Code::ResourceExhausted,
                  "the schema combines too many alternatives (anyOf, oneOf, not)");
    }
    if ((steps_ & 255) == 0) check_time_();
    if (contradictory(frame.shape)) return;
    if (frame.pending.empty()) {
      // The smallest choice first: fewer branches carry the rest.
      const auto best = std::ranges::min_element(
          choices, {}, [](const std::vector<Alternative>& c) { return c.size(); });
      const std::vector<Alternative> choice = std::move(*best);
      choices.erase(best);
      for (const Alternative& alternative : choice) {
        Frame branch = frame;
        for (std::vector<Alternative>& other : choices) {
          branch.pending.push_back({.apply = {}, .literal = {}, .choice = other});
        }
        branch.pending.insert(branch.pending.end(), alternative.begin(), alternative.end());
        run(std::move(branch), depth + 1, out);
      }
      return;
    }
    Step step = std::move(frame.pending.back());
    frame.pending.pop_back();
    if (step.apply) {
      step.apply(frame.shape);
    } else if (step.literal) {
      const Literal l = *step.literal;
      if (std::ranges::find(frame.done, l) != frame.done.end()) continue;
      if (std::ranges::find(frame.done, Literal{l.node, !l.positive}) != frame.done.end()) return;
      frame.done.push_back(l);
      if (l.positive) {
        for (Step& s : assertion(l.node)) frame.pending.push_back(std::move(s));
      } else {
        choices.push_back(denial(l.node));
        if (choices.back().empty()) return;  // a denial of what always holds
      }
    } else {
      if (step.choice.empty()) return;
      choices.push_back(std::move(step.choice));
    }
  }
  if (contradictory(frame.shape)) return;
  if (out.size() >= static_cast<size_t>(limits_.max_shapes)) {
    throw Error(Code::ResourceExhausted,
                fmt::format("the schema expands to more than {} alternatives (anyOf, oneOf, not)",
                            limits_.max_shapes));
  }
  out.push_back(std::move(frame.shape));
}

ShapeMaker::Alternative ShapeMaker::assertion(NodeId node) {
  return KeywordReader(*this, node).assertion();
}
std::vector<ShapeMaker::Alternative> ShapeMaker::denial(NodeId node) {
  return KeywordReader(*this, node).denial();
}

const Json* ShapeMaker::deref(NodeId& node, int hops) {
  const Json* json = doc_.node(node).json;
  const Json* ref = json->find("$ref");
  if (ref != nullptr && ref->is_string() && json->size() == 1 && hops > 0) {
    node = doc_.resolve(node, ref->as_string());
    return deref(node, hops - 1);
  }
  return json;
}

// Whether it is plain that no value satisfies both.
bool ShapeMaker::disjoint(NodeId a, NodeId b, int depth) {
  const Json* x = deref(a, 8);
  const Json* y = deref(b, 8);
  if ((x->is_bool() && !x->as_bool()) || (y->is_bool() && !y->as_bool())) return true;
  if (!x->is_object() || !y->is_object()) return false;
  const uint8_t types = possible_types(*x) & possible_types(*y);
  if (types == 0) return true;
  const auto listed = [](const Json& s) { return listed_values(s); };
  const auto vx = listed(*x);
  const auto vy = listed(*y);
  if (vx && vy) {
    return std::ranges::none_of(*vx, [&](const Json* v) {
      return std::ranges::any_of(*vy, [&](const Json* w) { return same_value(*v, *w); });
    });
  }
  if (types != kObject || depth > 3) return false;
  // Two objects that both must have a key whose values never agree.
  const Json* need_x = x->find("required");
  const Json* need_y = y->find("required");
  const Json* props_x = x->find("properties");
  const Json* props_y = y->find("properties");
  if (need_x == nullptr || need_y == nullptr || props_x == nullptr || props_y == nullptr ||
      !need_x->is_array() || !need_y->is_array()) {
    return false;
  }
  for (const Json& key : need_x->as_array()) {
    if (!key.is_string() ||
        std::ranges::find(need_y->as_array(), key) == need_y->as_array().end()) {
      continue;
    }
    const Json* px = props_x->find(key.as_string());
    const Json* py = props_y->find(key.as_string());
    if (px == nullptr || py == nullptr) continue;
    const NodeId cx = doc_.child(a, *px, "properties/" + key.as_string());
    const NodeId cy = doc_.child(b, *py, "properties/" + key.as_string());
    if (disjoint(cx, cy, depth + 1)) return true;
  }
  return false;
}

}  // namespace mlxcel::text::grammar

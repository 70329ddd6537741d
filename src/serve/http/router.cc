#include <algorithm>

#include "serve/http/exchange.h"

namespace mlxcel::serve {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

const std::string* first_of(const Pairs& pairs, std::string_view name) {
  const auto it = std::find_if(pairs.begin(), pairs.end(),
                               [&](const auto& pair) { return pair.first == name; });
  return it == pairs.end() ? nullptr : &it->second;
}

/// "/a/{id}" as {"a", "{id}"}; "/" as {""}.
std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> out;
  if (!path.empty() && path.front() == '/') path.remove_prefix(1);
  while (true) {
    const size_t slash = path.find('/');
    out.emplace_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return out;
    path.remove_prefix(slash + 1);
  }
}

bool is_name(std::string_view segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

/// Whether `path` fits; fills `values` with what the names stand for.
bool fits(const std::vector<std::string>& pattern, const std::vector<std::string>& path,
          Pairs& values) {
  if (pattern.size() != path.size()) return false;
  values.clear();
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (is_name(pattern[i])) {
      if (path[i].empty()) return false;
      values.emplace_back(pattern[i].substr(1, pattern[i].size() - 2), path[i]);
    } else if (pattern[i] != path[i]) {
      return false;
    }
  }
  return true;
}

}  // namespace

const std::string* HttpRequest::header(std::string_view name) const {
  return first_of(headers, name);
}

const std::string* HttpRequest::query_value(std::string_view name) const {
  return first_of(query, name);
}

const std::string* HttpRequest::path_value(std::string_view name) const {
  return first_of(path_values, name);
}

void Router::add(std::string method, std::string pattern, Handler handler, Auth auth) {
  routes_.push_back({std::move(method), std::move(pattern), {}, std::move(handler), auth});
  routes_.back().segments = split(routes_.back().pattern);
}

Router::Match Router::find(std::string_view method, std::string_view path) const {
  const std::vector<std::string> segments = split(path);
  Match match;
  Pairs values;
  const Route* chosen = nullptr;
  // A pattern without names wins over one with names: "/v1/responses/input_tokens" is no id.
  for (const Route& route : routes_) {
    if (!fits(route.segments, segments, values)) continue;
    // HEAD is GET without the body unless a route says otherwise.
    const bool wanted = route.method == method || (method == "HEAD" && route.method == "GET");
    if (!wanted) {
      match.allowed.push_back(route.method);
      continue;
    }
    const bool exact_method = route.method == method;
    const bool better =
        chosen == nullptr || (exact_method && chosen->method != method) ||
        (exact_method == (chosen->method == method) && values.size() < match.path_values.size());
    if (!better) continue;
    chosen = &route;
    match.path_values = values;
  }
  if (chosen != nullptr) {
    match.handler = &chosen->handler;
    match.auth = chosen->auth;
    match.allowed.clear();
  }
  return match;
}

std::vector<std::pair<std::string, std::string>> Router::list() const {
  Pairs out;
  for (const Route& route : routes_) out.emplace_back(route.method, route.pattern);
  return out;
}

}  // namespace mlxcel::serve

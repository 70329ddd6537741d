#include "text/grammar/schema_doc.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"

namespace mlxcel::text::grammar {

namespace {

constexpr int kMaxDepth = 256;

constexpr std::array kSingle = {"items",
                                "additionalItems",
                                "additionalProperties",
                                "contains",
                                "propertyNames",
                                "not",
                                "if",
                                "then",
                                "else",
                                "unevaluatedItems",
                                "unevaluatedProperties"};
constexpr std::array kLists = {"allOf", "anyOf", "oneOf", "prefixItems", "items"};
constexpr std::array kMaps = {"properties",  "patternProperties", "$defs",
                              "definitions", "dependentSchemas",  "dependencies"};

bool is_schema(const Json& json) { return json.is_object() || json.is_bool(); }

std::string pointer_step(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

std::optional<std::string> pointer_key(std::string_view step) {
  std::string out;
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] == '~') {
      if (i + 1 >= step.size() || (step[i + 1] != '0' && step[i + 1] != '1')) return {};
      out += step[++i] == '0' ? '~' : '/';
    } else {
      out += step[i];
    }
  }
  return out;
}

std::string percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 &&
        digit(text[i + 2]) >= 0) {
      out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool has_scheme(std::string_view uri) {
  const size_t colon = uri.find_first_of(":/?#");
  return colon != std::string_view::npos && colon > 0 && uri[colon] == ':';
}

std::string without_dots(std::string_view path) {
  std::vector<std::string_view> parts;
  const bool absolute = path.starts_with('/');
  bool folder = false;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
    folder = slash != std::string_view::npos && path.empty();
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
      folder = path.empty();
    } else if (part == ".") {
      folder = path.empty();
    } else if (!part.empty()) {
      parts.push_back(part);
    }
  }
  std::string out = absolute ? "/" : "";
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += '/';
    out += parts[i];
  }
  if (folder && !parts.empty()) out += '/';
  return out;
}

}  // namespace

std::string resolve_uri(std::string_view base, std::string_view reference) {
  reference = reference.substr(0, reference.find('#'));
  base = base.substr(0, base.find('#'));
  if (reference.empty()) return std::string(base);
  if (has_scheme(reference)) return std::string(reference);
  const size_t colon = base.find(':');
  const bool with_host =
      colon != std::string_view::npos && base.substr(colon + 1).starts_with("//");
  size_t path_at = colon == std::string_view::npos ? 0 : colon + 1;
  if (with_host) path_at = std::min(base.find('/', colon + 3), base.size());
  const std::string_view front = base.substr(0, path_at);
  const std::string_view path = base.substr(path_at);
  if (reference.starts_with('/')) return std::string(front) + without_dots(reference);
  const size_t slash = path.rfind('/');
  std::string joined(slash == std::string_view::npos ? (with_host ? "/" : "")
                                                     : path.substr(0, slash + 1));
  joined += reference;
  return std::string(front) + without_dots(joined);
}

SchemaDoc::SchemaDoc(const Json& document, std::string_view where) {
  if (!is_schema(document)) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: a JSON Schema is an object, true or false, not {}", where,
                            Json::kind_name(document.kind())));
  }
  resources_.push_back({});
  intern(document, std::string(where), 0);
  scan(0, 0);
}

NodeId SchemaDoc::intern(const Json& json, std::string place, uint32_t resource) {
  const auto [it, fresh] = ids_.emplace(&json, static_cast<NodeId>(nodes_.size()));
  if (fresh) nodes_.push_back({&json, std::move(place), resource});
  return it->second;
}

void SchemaDoc::scan(NodeId id, int depth) {
  if (depth > kMaxDepth) {
    throw Error(Code::ResourceExhausted,
                fmt::format("the schema is nested deeper than {} levels", kMaxDepth));
  }
  const Json& json = *nodes_[id].json;
  if (!json.is_object()) return;
  const Json* dialect = json.find("$schema");
  if (dialect != nullptr && dialect->is_string() &&
      dialect->as_string().find("json-schema.org/") == std::string::npos) {
    refuse(id, "$schema", "meta-schemas other than json-schema.org's are not known");
  }
  const Json* uri = json.find("$id");
  if (uri == nullptr) uri = json.find("id");
  if (uri != nullptr && uri->is_string() && !uri->as_string().starts_with('#')) {
    const std::string absolute = resolve_uri(resources_[nodes_[id].resource].uri, uri->as_string());
    if (id == 0) {
      resources_[0].uri = absolute;
    } else {
      nodes_[id].resource = static_cast<uint32_t>(resources_.size());
      resources_.push_back({.uri = absolute, .root = id, .anchors = {}});
    }
  }
  for (const char* keyword : {"$anchor", "$dynamicAnchor"}) {
    const Json* anchor = json.find(keyword);
    if (anchor != nullptr && anchor->is_string()) {
      resources_[nodes_[id].resource].anchors.emplace(anchor->as_string(), id);
    }
  }
  if (uri != nullptr && uri->is_string() && uri->as_string().starts_with('#')) {
    resources_[nodes_[id].resource].anchors.emplace(uri->as_string().substr(1), id);
  }
  for (const char* keyword : kSingle) {
    const Json* sub = json.find(keyword);
    if (sub != nullptr && is_schema(*sub)) scan(child(id, *sub, keyword), depth + 1);
  }
  for (const char* keyword : kLists) {
    const Json* list = json.find(keyword);
    if (list == nullptr || !list->is_array()) continue;
    for (size_t i = 0; i < list->size(); ++i) {
      const Json& sub = list->as_array()[i];
      if (is_schema(sub)) scan(child(id, sub, fmt::format("{}/{}", keyword, i)), depth + 1);
    }
  }
  for (const char* keyword : kMaps) scan_map(id, keyword, depth);
}

void SchemaDoc::scan_map(NodeId id, std::string_view keyword, int depth) {
  const Json* map = nodes_[id].json->find(keyword);
  if (map == nullptr || !map->is_object()) return;
  for (const auto& [key, sub] : map->as_object()) {
    if (is_schema(sub)) {
      scan(child(id, sub, fmt::format("{}/{}", keyword, pointer_step(key))), depth + 1);
    }
  }
}

NodeId SchemaDoc::child(NodeId parent, const Json& json, std::string_view step) {
  const auto it = ids_.find(&json);
  if (it != ids_.end()) return it->second;
  if (!is_schema(json)) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}/{}: a schema is an object, true or false, not {}",
                            nodes_[parent].place, step, Json::kind_name(json.kind())));
  }
  return intern(json, fmt::format("{}/{}", nodes_[parent].place, step), nodes_[parent].resource);
}

NodeId SchemaDoc::walk_pointer(NodeId from, NodeId base, std::string_view pointer,
                               const std::string& ref) {
  const Json* at = nodes_[base].json;
  std::string place = nodes_[base].place;
  uint32_t resource = nodes_[base].resource;
  const auto missing = [&]() {
    refuse(from, "$ref", fmt::format("\"{}\" points to nothing in this schema", ref));
  };
  while (!pointer.empty()) {
    if (pointer.front() != '/') missing();
    pointer.remove_prefix(1);
    const size_t slash = std::min(pointer.find('/'), pointer.size());
    const std::optional<std::string> key = pointer_key(pointer.substr(0, slash));
    if (!key) missing();
    if (at->is_array()) {
      const bool digits = !key->empty() && key->size() < 10 &&
                          std::ranges::all_of(*key, [](char c) { return c >= '0' && c <= '9'; });
      if (!digits || std::stoul(*key) >= at->size()) missing();
      at = &at->as_array()[std::stoul(*key)];
    } else {
      at = at->find(*key);
      if (at == nullptr) missing();
    }
    place += '/' + std::string(pointer.substr(0, slash));
    pointer.remove_prefix(slash);
    const auto known = ids_.find(at);
    if (known != ids_.end()) resource = nodes_[known->second].resource;
  }
  if (!is_schema(*at)) missing();
  const bool fresh = !ids_.contains(at);
  const NodeId id = intern(*at, std::move(place), resource);
  if (fresh) scan(id, 0);  // a place that no keyword of ours leads to
  return id;
}

NodeId SchemaDoc::resolve(NodeId from, const std::string& reference) {
  const size_t hash = reference.find('#');
  const std::string fragment = hash == std::string::npos
                                   ? ""
                                   : percent_decoded(std::string_view(reference).substr(hash + 1));
  const std::string uri = resolve_uri(resources_[nodes_[from].resource].uri, reference);
  uint32_t resource = nodes_[from].resource;
  if (hash != 0) {
    const auto it = std::ranges::find(resources_, uri, &Resource::uri);
    if (it == resources_.end() || uri.empty()) {
      refuse(from, "$ref",
             fmt::format("\"{}\" is outside this schema, and external references are not loaded; "
                         "convert the schema to a grammar and pass it as a grammar instead",
                         reference));
    }
    resource = static_cast<uint32_t>(it - resources_.begin());
  }
  const NodeId base = resources_[resource].root;
  if (fragment.empty() || fragment.front() == '/') {
    return walk_pointer(from, base, fragment, reference);
  }
  const auto anchor = resources_[resource].anchors.find(fragment);
  if (anchor == resources_[resource].anchors.end()) {
    refuse(from, "$ref", fmt::format("this schema has no anchor \"{}\"", fragment));
  }
  return anchor->second;
}

void SchemaDoc::refuse(NodeId node, std::string_view keyword, std::string_view why) const {
  throw Error(Code::InvalidArgument, fmt::format("{}/{}: {}", nodes_[node].place, keyword, why));
}

}  // namespace mlxcel::text::grammar

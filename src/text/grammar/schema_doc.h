// A schema document: its places, identifiers and references.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"

namespace mlxcel::text::grammar {

using NodeId = uint32_t;

/// A schema (object or boolean) of the document.
struct SchemaNode {
  const Json* json = nullptr;  // in the document
  std::string place;           // "#/properties/a"
  uint32_t resource = 0;
};

class SchemaDoc {
 public:
  /// `document` must outlive this. Throws InvalidArgument when it is no schema.
  SchemaDoc(const Json& document, std::string_view where);

  NodeId root() const { return 0; }
  const SchemaNode& node(NodeId id) const { return nodes_[id]; }
  /// The schema `json`, which lies below `parent` at `step` ("properties/a").
  NodeId child(NodeId parent, const Json& json, std::string_view step);
  /// The target of "$ref". Throws InvalidArgument naming the reference.
  NodeId resolve(NodeId from, const std::string& reference);

  /// Refuses a keyword: throws InvalidArgument "place/keyword: why".
  [[noreturn]] void refuse(NodeId node, std::string_view keyword, std::string_view why) const;

 private:
  struct Resource {
    std::string uri;
    NodeId root = 0;
    std::unordered_map<std::string, NodeId> anchors;
  };
  NodeId intern(const Json& json, std::string place, uint32_t resource);
  void scan(NodeId node, int depth);
  void scan_map(NodeId node, std::string_view keyword, int depth);
  NodeId walk_pointer(NodeId from, NodeId base, std::string_view pointer, const std::string& ref);

  std::vector<SchemaNode> nodes_;
  std::unordered_map<const Json*, NodeId> ids_;
  std::vector<Resource> resources_;
};

/// `reference` relative to `base` (RFC 3986, section 5.2), without a fragment.
std::string resolve_uri(std::string_view base, std::string_view reference);

}  // namespace mlxcel::text::grammar

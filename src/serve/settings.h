// The defaults of requests, which GET and PATCH /v1/settings show and change.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/json.h"
#include "serve/served_model.h"

namespace mlxcel::serve {

/// Thread-safe. Running requests keep the defaults that they began with. Nothing is written to
/// disk.
class SettingsStore {
 public:
  /// `fixed` is shown beside the settings that can be changed: what was decided at the start.
  SettingsStore(RequestDefaults defaults, Json fixed);

  std::shared_ptr<const RequestDefaults> get() const;

  /// {"schema": {name: {"kind", "mutable", "help"}}, "current": {name: value}, "fingerprint"}.
  Json json() const;

  /// Applies {"mode": "merge" or "replace", "settings": {name: value}}; an object without
  /// "settings" is such an object of names itself. Values that do not fit are reported and change
  /// nothing; "replace" sets what is not named back to its value at the start. Returns {"applied":
  /// {...}, "rejected": [{"name", "reason"}], "current", "fingerprint"}. InvalidArgument for
  /// another shape.
  Result<Json> patch(const Json& body);

 private:
  const RequestDefaults initial_;
  const Json fixed_;
  mutable std::mutex mutex_;  // guards current_
  std::shared_ptr<const RequestDefaults> current_;
};

}  // namespace mlxcel::serve

// The defaults of requests, which GET and PATCH /v1/settings show and change.
#pragma once

#include <memory>
#include <mutex>

#include "base/json.h"
#include "serve/served_model.h"

namespace mlxcel::serve {

/// Thread-safe. Running requests keep the defaults that they began with.
class SettingsStore {
 public:
  explicit SettingsStore(RequestDefaults defaults);
  std::shared_ptr<const RequestDefaults> get() const;
  void set(RequestDefaults defaults);

 private:
  mutable std::mutex mutex_;  // guards current_
  std::shared_ptr<const RequestDefaults> current_;
};

}  // namespace mlxcel::serve

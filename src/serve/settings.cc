#include "serve/settings.h"

namespace mlxcel::serve {

SettingsStore::SettingsStore(RequestDefaults defaults)
    : current_(std::make_shared<const RequestDefaults>(std::move(defaults))) {}

std::shared_ptr<const RequestDefaults> SettingsStore::get() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

void SettingsStore::set(RequestDefaults defaults) {
  auto next = std::make_shared<const RequestDefaults>(std::move(defaults));
  const std::lock_guard lock(mutex_);
  current_ = std::move(next);
}

}  // namespace mlxcel::serve

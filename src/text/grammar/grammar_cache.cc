#include "text/grammar/grammar_cache.h"

#include <algorithm>

namespace mlxcel::text {

GrammarCache::GrammarCache(std::shared_ptr<const Tokenizer> tokenizer, size_t entries)
    : tokenizer_(std::move(tokenizer)), max_entries_(entries) {}

std::shared_ptr<const Grammar> GrammarCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto it = std::ranges::find(entries_, key, &Entry::key);
  if (it == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, it);
  return it->grammar;
}

void GrammarCache::keep(std::string key, std::shared_ptr<const Grammar> grammar) {
  const std::lock_guard lock(mutex_);
  entries_.push_front({std::move(key), std::move(grammar)});
  if (entries_.size() > max_entries_) entries_.pop_back();
}

Result<std::shared_ptr<const Grammar>> GrammarCache::gbnf(std::string_view source) {
  std::string key = "g" + std::string(source);
  if (auto known = find(key)) return known;
  auto made = Grammar::from_gbnf(source, tokenizer_.get());
  if (made.ok()) keep(std::move(key), made.value());
  return made;
}

Result<std::shared_ptr<const Grammar>> GrammarCache::json_schema(const Json& schema) {
  if (schema.is_object() && schema.size() == 0) return Grammar::json_object();
  std::string key = "s" + schema.dump();
  if (auto known = find(key)) return known;
  auto made = Grammar::from_json_schema(schema);
  if (made.ok()) keep(std::move(key), made.value());
  return made;
}

}  // namespace mlxcel::text

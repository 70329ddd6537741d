// Compiled grammars of a server, shared by requests that ask for the same one.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "text/grammar/grammar.h"
#include "text/tokenizer.h"

namespace mlxcel::text {

/// Thread-safe. Keeps the grammars that were used last.
class GrammarCache {
 public:
  /// `tokenizer` (may be null) finds tokens that a grammar names.
  explicit GrammarCache(std::shared_ptr<const Tokenizer> tokenizer, size_t entries = 64);

  Result<std::shared_ptr<const Grammar>> gbnf(std::string_view source);
  /// The schema {} stands for any JSON object.
  Result<std::shared_ptr<const Grammar>> json_schema(const Json& schema);

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const Grammar> grammar;
  };
  std::shared_ptr<const Grammar> find(const std::string& key);
  void keep(std::string key, std::shared_ptr<const Grammar> grammar);

  const std::shared_ptr<const Tokenizer> tokenizer_;  // shared with the server
  const size_t max_entries_;
  std::mutex mutex_;          // guards entries_
  std::list<Entry> entries_;  // the last one used is first
};

}  // namespace mlxcel::text

// What the routes of a server share: the loaded model, its formats, and the defaults of requests.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/engine.h"
#include "serve/chat_session.h"
#include "serve/slots.h"
#include "text/grammar/grammar_cache.h"
#include "text/tokenizer.h"

namespace mlxcel::serve {

/// The model that a server was started with. Filled once by the application, then read-only.
struct ServedModel {
  std::string id;                    // --alias, else the name of the file or folder
  std::vector<std::string> aliases;  // further names in the model list
  std::string path;                  // as given; never sent to clients
  std::string family;                // "llama"
  int64_t created_unix_s = 0, num_parameters = 0, weight_bytes = 0;
  int32_t vocab_size = 0, train_context_tokens = 0;
  std::shared_ptr<engine::Engine> engine;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  ChatFormat chat;
  std::vector<text::TokenId> stop_ids;  // end-of-text ids of the checkpoint
};

/// Defaults that a request overrides. PATCH /v1/settings replaces the whole object atomically.
struct RequestDefaults {
  engine::SamplingParams sampling;
  int32_t max_tokens = -1;  // --n-predict; a non-negative flag is also a cap (decisions.md C11)
  bool max_tokens_is_cap = false;
  std::optional<int32_t> reasoning_budget;
  std::vector<std::string> stop;  // --reverse-prompt: added to those of every request
  Json chat_template_kwargs = Json::object();
  std::shared_ptr<const text::Grammar> grammar;  // of answers whose request brings none
};

/// Where thinking goes in a chat answer (--reasoning-format).
enum class ReasoningFormat : uint8_t {
  Auto,            // as Deepseek
  None,            // all of it is content, with its markers
  Deepseek,        // split into reasoning_content and content
  DeepseekLegacy,  // split, and the content keeps all of it too
};

/// Bounds of a store of answers in memory; 0 entries switches it off, 0 seconds means no end.
struct StoreLimits {
  int64_t max_entries = 0, max_bytes = 0, ttl_seconds = 0;
};

/// How the generation routes behave, from the flags of the server.
struct GenerationOptions {
  ReasoningFormat reasoning_format = ReasoningFormat::Auto;
  bool reasoning_alias = false;  // --reasoning-alias-field reasoning: chat answers repeat it there
  bool skip_chat_parsing = false;  // everything is content
  bool prefill_assistant = true;   // a last assistant message is continued
  bool spm_infill = false;         // suffix before prefix
  bool verbose = false;            // "__verbose" in chat answers
  StoreLimits responses{1024, 268435456, 3600};
  StoreLimits conversations{256, 67108864, 3600};
  std::string vertex_predict_path;  // AIP_PREDICT_ROUTE with AIP_MODE=PREDICTION; empty: none
};

/// Shared by all handlers; outlives them.
struct ServerState {
  ServedModel model;
  int32_t num_slots = 4;
  bool slots_endpoint = true, metrics_endpoint = false, props_endpoint = false;
  std::chrono::milliseconds ping_interval{5000};
  std::function<std::shared_ptr<const RequestDefaults>()> defaults;
  GenerationOptions generation;
  std::shared_ptr<text::GrammarCache> grammars;  // never null once routes are added
  std::shared_ptr<SlotTable> slots;  // num_slots of them; never null once routes are added
};

}  // namespace mlxcel::serve

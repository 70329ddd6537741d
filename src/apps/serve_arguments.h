// What `serve` was asked to do, as plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/grammar_flags.h"
#include "apps/model_arguments.h"
#include "engine/engine.h"
#include "serve/http/server.h"

namespace mlxcel::apps {

struct ServeArguments {
  ModelArguments model;
  std::string alias, tags;  // comma-separated

  serve::HttpServerOptions http;
  int32_t http_threads = -1;  // -1 = by slots and processors
  std::string api_prefix;
  std::vector<std::string> api_keys, api_key_files;
  serve::CorsPolicy cors;
  bool cors_origins_given = false;
  int32_t sse_ping_seconds = 30;  // -1 = never

  int32_t num_slots = 4;
  std::optional<int32_t> max_batch;
  std::optional<int32_t> batch_size;  // -b; --prefill-chunk-size wins
  std::optional<int32_t> max_batch_prefill_tokens;
  int32_t context_tokens = 0;  // of all slots together; 0 = the model's own for each
  engine::EngineOptions engine;
  bool estimate_memory = false, force = false;
  bool warmup = true;

  bool slots_endpoint = true, props_endpoint = false, metrics_endpoint = false;
  bool settings_endpoint = false;

  std::optional<std::string> chat_template, chat_template_file;
  std::string chat_template_kwargs;
  int32_t reasoning_budget = -1;
  std::optional<bool> reasoning;          // unset: as the template has it
  std::string reasoning_format = "auto";  // none, deepseek or deepseek-legacy
  bool reasoning_alias = false, skip_chat_parsing = false;
  bool prefill_assistant = true, spm_infill = false, verbose = false;

  SamplingFlags sampling;
  GrammarFlags grammar;
  int32_t max_tokens = -1;
  bool max_tokens_given = false;
  bool ignore_eos = false;
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<std::string> stop;
  std::optional<float> adaptive_target, adaptive_decay;

  int64_t responses_entries = 1024, responses_bytes = int64_t{256} << 20, responses_ttl_s = 3600;
  int64_t conversation_entries = 256, conversation_bytes = int64_t{64} << 20,
          conversation_ttl_s = 3600;

  std::optional<int32_t> num_threads;  // of the kernels
  int32_t log_level = -1;              // 0 (nothing) to 5 (everything); -1 = MLXCEL_LOG
  std::string log_file;
  bool log_disable = false;
  /// Flags of llama-server that were given and change nothing here, for a note in the log.
  std::vector<std::string> without_effect;
};

}  // namespace mlxcel::apps

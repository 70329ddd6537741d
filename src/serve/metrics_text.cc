#include "serve/metrics_text.h"

#include <fmt/core.h>

#include <string_view>

namespace mlxcel::serve {
namespace {

/// Reads "counters.steps" of the engine's statistics; 0 when it is not there.
double value_of(const Json& stats, std::string_view group, std::string_view name) {
  const Json* object = stats.find(group);
  const Json* value = object == nullptr ? nullptr : object->find(name);
  return value != nullptr && value->is_number() ? value->as_double() : 0.0;
}

class Exposition {
 public:
  explicit Exposition(std::string_view prefix) : prefix_(prefix) {}
  void counter(std::string_view name, std::string_view help, double value) {
    sample(name, help, "counter", value);
  }
  void gauge(std::string_view name, std::string_view help, double value) {
    sample(name, help, "gauge", value);
  }
  /// A histogram of the engine: {"count", "sum", "buckets": [{"le", "count"}]}.
  void histogram(std::string_view name, std::string_view help, const Json* json) {
    if (json == nullptr) return;
    head(name, help, "histogram");
    for (const Json& bucket : json->find("buckets")->as_array()) {
      const Json& bound = *bucket.find("le");
      const std::string le = bound.is_null() ? "+Inf" : fmt::format("{:g}", bound.as_double());
      text_ += fmt::format("{}{}_bucket{{le=\"{}\"}} {}\n", prefix_, name, le,
                           bucket.find("count")->as_int());
    }
    text_ += fmt::format("{0}{1}_sum {2:.10g}\n{0}{1}_count {3}\n", prefix_, name,
                         json->find("sum")->as_double(), json->find("count")->as_int());
  }
  std::string take() { return std::move(text_); }

 private:
  void head(std::string_view name, std::string_view help, std::string_view kind) {
    text_ += fmt::format("# HELP {0}{1} {2}\n# TYPE {0}{1} {3}\n", prefix_, name, help, kind);
  }
  void sample(std::string_view name, std::string_view help, std::string_view kind, double value) {
    head(name, help, kind);
    text_ += fmt::format("{}{} {:.15g}\n", prefix_, name, value);
  }
  std::string_view prefix_;
  std::string text_;
};

double ratio(double a, double b) { return b > 0 ? a / b : 0.0; }

std::string llama_block(const Json& s) {
  Exposition out("llamacpp:");
  const auto count = [&](const char* name) { return value_of(s, "counters", name); };
  const double prompt_s = count("prefill_ms") / 1000;
  const double predicted_s = count("decode_ms") / 1000;
  out.counter("prompt_tokens_total", "Prompt tokens processed.", count("computed_prompt_tokens"));
  out.counter("prompt_tokens_cached_total", "Prompt tokens taken from the cache.",
              count("cached_tokens"));
  out.counter("prompt_seconds_total", "Seconds of prompt processing.", prompt_s);
  out.counter("tokens_predicted_total", "Tokens generated.", count("generated_tokens"));
  out.counter("tokens_predicted_seconds_total", "Seconds of generation.", predicted_s);
  out.counter("n_decode_total", "Steps with generating sequences.",
              count("decode_steps") + count("mixed_steps"));
  out.counter("n_tokens_max", "Longest sequence in tokens.", count("longest_tokens"));
  out.counter("spec_decode_num_draft_tokens_total", "Tokens drafted.", 0);
  out.counter("spec_decode_num_accepted_tokens_total", "Drafted tokens accepted.", 0);
  out.counter("spec_decode_num_drafts_total", "Drafts.", 0);
  out.gauge("prompt_tokens_seconds", "Prompt tokens a second, on average.",
            ratio(count("computed_prompt_tokens"), prompt_s));
  out.gauge("predicted_tokens_seconds", "Generated tokens a second, on average.",
            ratio(count("generated_tokens"), predicted_s));
  out.gauge("requests_processing", "Requests that run.",
            value_of(s, "gauges", "prefilling") + value_of(s, "gauges", "decoding"));
  out.gauge("requests_deferred", "Requests that wait.", value_of(s, "gauges", "queued"));
  out.gauge("n_busy_slots_per_decode", "Sequences of a step, on average.",
            ratio(value_of(s, "batch_rows", "sum"), value_of(s, "batch_rows", "count")));
  return out.take();
}

void add_batch(Exposition& out, const Json& s) {
  const auto count = [&](const char* name) { return value_of(s, "counters", name); };
  out.counter("batch_sequences_started", "Sequences admitted.", count("admissions"));
  out.counter("batch_sequences_completed", "Sequences ended.",
              count("finished_stop") + count("finished_length") + count("cancelled"));
  out.counter("batch_prefill_tokens_total", "Prompt tokens computed.",
              count("computed_prompt_tokens"));
  out.counter("batch_decode_tokens_total", "Tokens generated.", count("generated_tokens"));
  out.counter("batch_decode_steps_total", "Steps that only generate.", count("decode_steps"));
  out.counter("batch_prefill_chunks_total", "Steps that only compute prompts.",
              count("prefill_steps"));
  out.counter("batch_mixed_steps_total", "Steps that do both.", count("mixed_steps"));
  out.counter("batch_prefill_grants_total", "Steps granted to waiting prompts.",
              count("prefill_grants"));
  out.gauge("batch_current_size", "Sequences that generate now.",
            value_of(s, "gauges", "decoding"));
}

void add_cache(Exposition& out, const Json& s) {
  const auto now = [&](const char* name) { return value_of(s, "gauges", name); };
  const auto cache = [&](const char* name) { return value_of(s, "prefix_cache", name); };
  out.gauge("cache_pool_paged_blocks_allocated", "Blocks of the K/V pool.",
            now("blocks_free") + now("blocks_used"));
  out.gauge("cache_pool_paged_blocks_live", "Blocks in use.", now("blocks_used"));
  out.gauge("cache_pool_paged_blocks_free", "Blocks free.", now("blocks_free"));
  out.gauge("cache_pool_paged_bytes_reserved", "Budget of the pool.", now("kv_budget_bytes"));
  out.gauge("cache_pool_paged_bytes_in_use", "Bytes in use.", now("kv_live_bytes"));
  out.counter("prompt_cache_hits", "Prompts that found a prefix.", cache("hits"));
  out.counter("prompt_cache_misses", "Prompts that found none.", cache("lookups") - cache("hits"));
  out.counter("prompt_cache_prefix_tokens_reused_total", "Tokens taken from the cache.",
              cache("tokens_reused"));
  out.gauge("prompt_cache_bytes", "Bytes kept.", cache("bytes"));
  out.gauge("prompt_cache_entries", "Prompts kept.", cache("apc_active_entries"));
  out.counter("prompt_cache_snapshot_hits_total", "State snapshots found.", cache("snapshot_hits"));
  out.counter("prompt_cache_snapshot_misses_total", "State snapshots not found.",
              cache("snapshot_misses"));
  out.counter("prompt_cache_snapshot_tokens_reused_total", "Tokens of found snapshots.",
              cache("snapshot_tokens_reused"));
}

std::string own_block(const ServerState& state, const Json& s) {
  Exposition out("mlxcel_");
  const auto count = [&](const char* name) { return value_of(s, "counters", name); };
  const double busy = state.slots ? state.slots->num_busy() : 0;
  out.counter("requests_total", "Requests accepted by the engine.", count("requests_submitted"));
  out.counter("prompt_tokens_total", "Prompt tokens, cached ones included.",
              count("prompt_tokens"));
  out.counter("completion_tokens_total", "Tokens generated.", count("generated_tokens"));
  out.counter("generation_time_seconds_total", "Seconds of prompts and generation.",
              (count("prefill_ms") + count("decode_ms")) / 1000);
  out.gauge("slots_total", "Slots.", state.num_slots);
  out.gauge("slots_available", "Slots that are free.", state.num_slots - busy);
  out.gauge("queue_depth", "Requests that wait.", value_of(s, "gauges", "queued"));
  add_batch(out, s);
  add_cache(out, s);
  out.histogram("request_ttft_ms", "Milliseconds from arrival to the first token.",
                s.find("ttft_ms"));
  out.histogram("request_itl_ms", "Milliseconds between two tokens.", s.find("itl_ms"));
  out.histogram("request_queue_ms", "Milliseconds of waiting.", s.find("queue_ms"));
  return out.take();
}

}  // namespace

std::string metrics_text(const ServerState& state) {
  const Json stats = state.model.engine->stats();
  return llama_block(stats) + own_block(state, stats);
}

}  // namespace mlxcel::serve

#include "apps/serve_flags.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace mlxcel::apps {
namespace {

using Args = ServeArguments;
using Value = FlagValue;
using enum ServeFlag::Count;

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
constexpr double kAny = 1e30;

constexpr const char* kNetwork = "Network and authentication";
constexpr const char* kModel = "Model and store";
constexpr const char* kBatching = "Concurrency and batching";
constexpr const char* kCache = "Prompt cache";
constexpr const char* kTemplate = "Chat template";
constexpr const char* kEndpoints = "Endpoints";
constexpr const char* kStores = "Responses API stores";
constexpr const char* kSampling = "Default sampling";
constexpr const char* kStructured = "Structured output";
constexpr const char* kLogging = "Logging";

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> out;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) out.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

void set_prefix(Args& a, const Value& v) {
  std::string prefix = v.text;
  while (prefix.ends_with('/')) prefix.pop_back();
  if (!prefix.empty() &&
      (!prefix.starts_with('/') || prefix.find_first_of("{}?# ") != std::string::npos)) {
    throw v.refused("a path like /llama, without braces");
  }
  a.api_prefix = prefix;
}

void set_budget(Args& a, const Value& v) {
  if (v.text == "auto") {
    a.engine.kv_budget_bytes.reset();
  } else {
    a.engine.kv_budget_bytes = v.text == "none" ? 0 : v.bytes();
  }
}

void set_prompt_cache(Args& a, const Value& v) {
  // LLAMA_ARG_CACHE_REUSE is a number of tokens.
  const bool number = v.text.find_first_not_of("0123456789") == std::string::npos;
  a.engine.prefix_cache = number ? v.integer(0, kMaxInt) != 0 : v.boolean();
}

void set_cache_ram(Args& a, const Value& v) {
  const int64_t mib = v.integer(-1, int64_t{1} << 30);
  if (mib == 0) a.engine.prefix_cache = false;
  a.engine.prefix_cache_bytes = mib < 0 ? int64_t{1} << 50 : mib << 20;
}

void set_logit_bias(Args& a, const Value& v) {
  const size_t sign = v.text.find_first_of("+-", 1);
  if (sign == std::string::npos) throw v.refused("TOKEN_ID+BIAS or TOKEN_ID-BIAS");
  const Value id{v.name, v.text.substr(0, sign)};
  const Value bias{v.name, v.text.substr(v.text[sign] == '+' ? sign + 1 : sign)};
  a.logit_bias.emplace_back(id.int32(0, kMaxInt), bias.number(-kAny, kAny));
}

/// The chain's order is that of the engine; only its own spelling is accepted.
void check_samplers(Args&, const Value& v) {
  constexpr std::string_view kNames =
      "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";
  constexpr std::string_view kLetters = "edskypmxt";
  if (v.text == kNames || v.text == kLetters) return;
  throw Error(Code::InvalidArgument,
              fmt::format("{}: the order of the samplers is fixed; leave the flag away or give {}",
                          v.name, v.name == "--samplers" ? kNames : kLetters));
}

void set_fp16_only(Args&, const Value& v) {
  if (v.text == "f16" || v.text == "fp16") return;
  throw Error(Code::Unsupported,
              fmt::format("{} {} is not available in this build", v.name, v.text));
}

constexpr ServeFlag kFlags[] = {
    {kModel, "-m,--model", "PATH_OR_REPO_ID", "LLAMA_ARG_MODEL",
     "Local path, owner/name on the hub, or a bare model name",
     [](Args& a, const Value& v) { a.model.model = v.text; }},
    {kModel, "--hf-repo", "OWNER/NAME", "LLAMA_ARG_HF_REPO", "The same; wins over --model",
     [](Args& a, const Value& v) { a.model.model = v.text; }},
    {kModel, "--hf-file", "FILE", "LLAMA_ARG_HF_FILE", "One GGUF file of the repository",
     [](Args& a, const Value& v) { a.model.hub.file = v.text; }},
    {kModel, "--revision", "REV", nullptr, "Branch, tag or commit of the repository",
     [](Args& a, const Value& v) { a.model.hub.revision = v.text; }},
    {kModel, "--hf-token", "TOKEN", "", "Hub access token (default: HF_TOKEN)",
     [](Args& a, const Value& v) { a.model.hub.token = v.text; }},
    {kModel, "--model-store-root", "PATH", nullptr, "Model store root (default: MLXCEL_MODELS_DIR)",
     [](Args& a, const Value& v) { a.model.hub.models_dir = v.text; }},
    {kModel, "--offline", nullptr, "LLAMA_ARG_OFFLINE", "Never download",
     [](Args& a, const Value& v) { a.model.hub.offline = v.boolean(); }},
    {kModel, "-a,--alias", "NAMES", "LLAMA_ARG_ALIAS",
     "Names of the model in answers, comma-separated",
     [](Args& a, const Value& v) { a.alias = v.text; }},
    {kModel, "--tags", "LIST", "LLAMA_ARG_TAGS", "Comma-separated tags in the model list",
     [](Args& a, const Value& v) { a.tags = v.text; }},
    {kModel, "--estimate-memory", nullptr, nullptr,
     "Check before loading that the model fits into memory",
     [](Args& a, const Value& v) { a.estimate_memory = v.boolean(); }},
    {kModel, "--force,--no-memory-check", nullptr, nullptr, "Go on when that check fails",
     [](Args& a, const Value& v) { a.force = v.boolean(); }},
    {kModel, "--warmup,!--no-warmup", nullptr, nullptr,
     "Run one token before the first request (default: on)",
     [](Args& a, const Value& v) { a.warmup = v.boolean(); }},
    {kModel, "-t,--threads", "N", "LLAMA_ARG_THREADS", "Threads of the CPU kernels",
     [](Args& a, const Value& v) {
       const int32_t n = v.int32(-1, 1024);
       if (n > 0) a.num_threads = n;
     }},

    {kNetwork, "--host", "ADDR", "LLAMA_ARG_HOST",
     "Address to listen on; *.sock is a Unix socket (default: 127.0.0.1)",
     [](Args& a, const Value& v) { a.http.host = v.text; }},
    {kNetwork, "--port", "N", "LLAMA_ARG_PORT", "TCP port; 0 = any free one (default: 8080)",
     [](Args& a, const Value& v) { a.http.port = v.int32(0, 65535); }},
    {kNetwork, "--reuse-port", nullptr, "LLAMA_ARG_REUSE_PORT",
     "Let several servers listen on the port",
     [](Args& a, const Value& v) { a.http.reuse_port = v.boolean(); }},
    {kNetwork, "--api-prefix", "PATH", "LLAMA_ARG_API_PREFIX", "Serve everything below this path",
     set_prefix},
    {kNetwork, "--api-key", "KEYS", "LLAMA_API_KEY,MLXCEL_API_KEY",
     "Keys that clients must show, comma-separated; may be repeated",
     [](Args& a, const Value& v) {
       std::vector<std::string> keys = split(v.text);
       if (keys.empty()) throw v.refused("a key; leave the flag out to serve without one");
       for (std::string& key : keys) a.api_keys.push_back(std::move(key));
     },
     Many},
    {kNetwork, "--api-key-file", "PATH", "LLAMA_ARG_API_KEY_FILE", "A file with one key a line",
     [](Args& a, const Value& v) { a.api_key_files.push_back(v.text); }, Many},
    {kNetwork, "--ssl-cert-file", "PATH", "LLAMA_ARG_SSL_CERT_FILE",
     "PEM certificate: serve HTTPS; needs --ssl-key-file",
     [](Args& a, const Value& v) { a.http.tls_cert_file = v.text; }},
    {kNetwork, "--ssl-key-file", "PATH", "LLAMA_ARG_SSL_KEY_FILE", "PEM private key",
     [](Args& a, const Value& v) { a.http.tls_key_file = v.text; }},
    {kNetwork, "--allowed-origins", "ORIGINS", "MLXCEL_ALLOWED_ORIGINS",
     "Exactly these origins may call from a browser, comma-separated",
     [](Args& a, const Value& v) { a.cors.allowed_origins = split(v.text); }},
    {kNetwork, "--cors-origins", "VALUE", "LLAMA_ARG_CORS_ORIGINS",
     "*, localhost, or a value sent as it is (default: *)",
     [](Args& a, const Value& v) {
       a.cors.origins = v.text;
       a.cors_origins_given = true;
     }},
    {kNetwork, "--cors-headers", "LIST", "LLAMA_ARG_CORS_HEADERS", "Sent on preflight (default: *)",
     [](Args& a, const Value& v) { a.cors.headers = v.text; }},
    {kNetwork, "--cors-methods", "LIST", "LLAMA_ARG_CORS_METHODS",
     "Sent on preflight (default: GET,POST,OPTIONS)",
     [](Args& a, const Value& v) { a.cors.methods = v.text; }},
    {kNetwork, "--cors-credentials,!--no-cors-credentials", nullptr, "LLAMA_ARG_CORS_CREDENTIALS",
     "Let browsers send credentials (default: on)",
     [](Args& a, const Value& v) { a.cors.credentials = v.boolean(); }},
    {kNetwork, "--threads-http", "N", "LLAMA_ARG_THREADS_HTTP",
     "Threads that handle requests; -1 = max(parallel + 4, processors - 1)",
     [](Args& a, const Value& v) { a.http_threads = v.int32(-1, 1024); }},
    {kNetwork, "--timeout", "SECS", "LLAMA_ARG_TIMEOUT",
     "Longest single read or write of a socket (default: 3600)",
     [](Args& a, const Value& v) {
       a.http.connection.io_timeout = std::chrono::seconds(v.integer(1, 1 << 24));
     }},
    {kNetwork, "--sse-ping-interval", "SECS", "LLAMA_ARG_SSE_PING_INTERVAL",
     "Comment events while a stream is silent; -1 = none (default: 30)",
     [](Args& a, const Value& v) { a.sse_ping_seconds = v.int32(-1, 86400); }},

    {kBatching, "--parallel,--n-parallel", "N", "LLAMA_ARG_N_PARALLEL",
     "Slots: requests that run at once (default: 4)",
     [](Args& a, const Value& v) { a.num_slots = v.int32(-1, 4096); }},
    {kBatching, "--max-batch-size", "N", nullptr,
     "Sequences in one decode step (default: --parallel)",
     [](Args& a, const Value& v) { a.max_batch = v.int32(1, 4096); }},
    {kBatching, "--max-queue-depth", "N", nullptr,
     "Requests that may wait; then 503 (default: 32)",
     [](Args& a, const Value& v) { a.engine.max_queue_depth = v.int32(0, 1 << 20); }},
    {kBatching, "-c,--ctx-size", "N", "LLAMA_ARG_CTX_SIZE",
     "Context tokens of all slots together; 0 = the model's own for each (default: 0)",
     [](Args& a, const Value& v) { a.context_tokens = v.int32(0, 1 << 30); }},
    {kBatching, "--prefill-chunk-size", "N", "MLXCEL_PREFILL_CHUNK",
     "Prompt tokens of one step; 0 = all (default: 2048, beside running answers 512)",
     [](Args& a, const Value& v) { a.engine.prefill_chunk_tokens = v.int32(0, 1 << 30); }},
    {kBatching, "-b,--batch-size", "N", "LLAMA_ARG_BATCH", "The same, as llama-server spells it",
     [](Args& a, const Value& v) { a.batch_size = v.int32(1, 1 << 30); }},
    {kBatching, "--prefill-grant-interval", "N", "MLXCEL_PREFILL_GRANT_INTERVAL",
     "Decode steps before a waiting prompt gets one; 0 = no such grant (default: 16)",
     [](Args& a, const Value& v) { a.engine.prefill_grant_interval = v.int32(0, 1 << 30); }},
    {kBatching, "--max-batch-prefill", "N", nullptr, "Prompts in one step (default: 4)",
     [](Args& a, const Value& v) { a.engine.max_batch_prefill = v.int32(1, 4096); }},
    {kBatching, "--max-batch-prefill-tokens", "N", "MLXCEL_MAX_BATCH_PREFILL_TOKENS",
     "Their tokens together; 0 = no limit (default: 4096)",
     [](Args& a, const Value& v) { a.max_batch_prefill_tokens = v.int32(0, 1 << 30); }},
    {kBatching, "--enable-preemption", nullptr, nullptr,
     "Let urgent requests push out others when all rows are taken",
     [](Args& a, const Value& v) { a.engine.preemption = v.boolean(); }},
    {kBatching, "--preemption-policy", "POLICY", nullptr,
     "longest-first or lowest-priority (default: longest-first)",
     [](Args& a, const Value& v) {
       a.engine.preemption_policy =
           v.one_of({"longest-first", "lowest-priority"}) == "longest-first"
               ? engine::PreemptionPolicy::LongestFirst
               : engine::PreemptionPolicy::LowestPriority;
     }},
    {kBatching, "--no-batch", nullptr, nullptr, "One request at a time",
     [](Args& a, const Value& v) { a.engine.batching = !v.boolean(); }},
    {kBatching, "--decode-timeout", "SECS", "MLXCEL_DECODE_TIMEOUT",
     "Cancel a request without progress; 0 = 300 (default: 600)",
     [](Args& a, const Value& v) {
       const int64_t seconds = v.integer(0, 1 << 24);
       a.engine.decode_timeout_s = seconds == 0 ? 300.0 : static_cast<double>(seconds);
     }},
    {kBatching, "--max-kv-size", "N", "LLAMA_ARG_MAX_KV_SIZE",
     "K/V tokens a sequence keeps; 0 = all (default: 0)",
     [](Args& a, const Value& v) { a.engine.max_kv_tokens = v.int32(0, 1 << 30); }},
    {kBatching, "--decode-storage-backend", "KIND", "MLXCEL_SERVER_DECODE_STORAGE",
     "auto, paged, or dense: one run of blocks a sequence (default: auto)",
     [](Args& a, const Value& v) {
       a.engine.dense_kv = v.one_of({"auto", "paged", "dense"}) == "dense";
     }},
    {kBatching, "--kv-cache-budget", "BYTES", "MLXCEL_KV_CACHE_BUDGET",
     "Memory of the K/V cache: bytes, auto or none (default: auto)", set_budget},
    {kBatching, "--kv-admission-watermark", "FRACTION", "MLXCEL_KV_ADMISSION_WATERMARK",
     "Share of it that new prompts leave free, 0 to 0.5 (default: 0.01)",
     [](Args& a, const Value& v) { a.engine.admission_watermark = v.number(0, 0.5); }},
    {kBatching, "--kv-bits", "BITS", "LLAMA_ARG_KV_BITS", "0: the K/V cache is fp16",
     [](Args&, const Value& v) {
       if (v.integer(0, 16) != 0) {
         throw Error(Code::Unsupported,
                     fmt::format("{} {} is not available in this build", v.name, v.text));
       }
     }},
    {kBatching, "--cache-type-k", "TYPE", "LLAMA_ARG_CACHE_TYPE_K", "f16", set_fp16_only},
    {kBatching, "--cache-type-v", "TYPE", "LLAMA_ARG_CACHE_TYPE_V", "f16", set_fp16_only},
    {kBatching, "--sleep-idle-seconds", "SECS", nullptr, "-1: the model stays loaded",
     [](Args&, const Value& v) {
       if (v.integer(-1, kMaxInt) >= 0) {
         throw Error(Code::Unsupported, v.name + " is not available in this build");
       }
     }},
    {kBatching, "--debug-pp-trace", "PATH", nullptr,
     "Write a chrome trace of scheduler decisions here at the end",
     [](Args& a, const Value& v) { a.engine.trace_path = v.text; }},

    {kCache, "--prompt-cache-enabled", "BOOL", "MLXCEL_PROMPT_CACHE_ENABLED,LLAMA_ARG_CACHE_REUSE",
     "Reuse the K/V of earlier prompts (default: true)",
     set_prompt_cache, OptionalValue},
    {kCache, "--no-prompt-cache,--no-cache-prompt", nullptr, nullptr, "Do not",
     [](Args& a, const Value& v) {
       if (v.boolean()) a.engine.prefix_cache = false;
     }},
    {kCache, "--prompt-cache-capacity-bytes", "BYTES", "MLXCEL_PROMPT_CACHE_CAPACITY_BYTES",
     "Its size (default: 2147483648)",
     [](Args& a, const Value& v) { a.engine.prefix_cache_bytes = v.bytes(); }},
    {kCache, "--cache-ram", "MIB", "LLAMA_ARG_CACHE_RAM",
     "The same in MiB; -1 = no limit, 0 = no prompt cache", set_cache_ram},
    {kCache, "--cache-reuse", "N", nullptr, "Only 0: prefixes are reused, not pieces",
     [](Args&, const Value& v) {
       if (v.integer(0, kMaxInt) != 0) {
         throw Error(Code::Unsupported,
                     v.name + ": only 0 is supported; prefixes are always reused");
       }
     }},
    {kCache, "--prompt-cache-max-entries", "N", "MLXCEL_PROMPT_CACHE_MAX_ENTRIES",
     "Prompts kept (default: 1024)",
     [](Args& a, const Value& v) { a.engine.prefix_cache_max_entries = v.int32(0, 1 << 30); }},
    {kCache, "--prompt-cache-ttl", "SECS", "MLXCEL_PROMPT_CACHE_TTL",
     "Seconds after the last use (default: 3600)",
     [](Args& a, const Value& v) { a.engine.prefix_cache_ttl_s = v.number(0, kAny); }},
    {kCache, "--prompt-cache-min-prefix", "N", "MLXCEL_PROMPT_CACHE_MIN_PREFIX",
     "Shortest prefix kept, in tokens (default: 32)",
     [](Args& a, const Value& v) { a.engine.prefix_cache_min_tokens = v.int32(0, 1 << 30); }},
    {kCache, "--prompt-cache-snapshot-capacity-bytes", "BYTES",
     "MLXCEL_PROMPT_CACHE_SNAPSHOT_CAPACITY_BYTES",
     "State copies of recurrent models (default: 536870912)",
     [](Args& a, const Value& v) { a.engine.prefix_snapshot_bytes = v.bytes(); }},
    {kCache, "--prompt-cache-snapshot-max-entries", "N",
     "MLXCEL_PROMPT_CACHE_SNAPSHOT_MAX_ENTRIES", "Their number (default: 4096)",
     [](Args& a, const Value& v) { a.engine.prefix_snapshot_max_entries = v.int32(0, 1 << 30); }},
    {kCache, "--prompt-cache-snapshot-ttl", "SECS", "MLXCEL_PROMPT_CACHE_SNAPSHOT_TTL",
     "Their seconds after the last use (default: 7200)",
     [](Args& a, const Value& v) { a.engine.prefix_snapshot_ttl_s = v.number(0, kAny); }},
    {kCache, "--apc-enabled", "BOOL", "APC_ENABLED",
     "Find prefixes by block hashes; false leaves no prompt cache (default: true)",
     [](Args& a, const Value& v) {
       if (!v.boolean()) a.engine.prefix_cache = false;
     },
     OptionalValue},
    {kCache, "--apc-hash", "KIND", "APC_HASH", "sha256 or blake3 (default: sha256)",
     [](Args& a, const Value& v) {
       a.engine.prefix_hash_blake3 = v.one_of({"sha256", "sha-256", "blake3"}) == "blake3";
     }},

    {kStructured, "--grammar", "TEXT", nullptr,
     "GBNF grammar of answers whose request brings no constraint",
     [](Args& a, const Value& v) { a.grammar.grammar = v.text; }},
    {kStructured, "--grammar-file", "PATH", nullptr, "The grammar of this file",
     [](Args& a, const Value& v) { a.grammar.grammar_file = v.text; }},
    {kStructured, "--json-schema", "JSON", nullptr,
     "JSON Schema of such answers; {} = any object",
     [](Args& a, const Value& v) { a.grammar.json_schema = v.text; }},
    {kStructured, "--json-schema-file", "PATH", nullptr, "The schema of this file",
     [](Args& a, const Value& v) { a.grammar.json_schema_file = v.text; }},
    {kTemplate, "--chat-template", "TEMPLATE", "LLAMA_ARG_CHAT_TEMPLATE",
     "Jinja2 text, or a name (chatml, llama3, ...), instead of the model's own",
     [](Args& a, const Value& v) { a.chat_template = v.text; }},
    {kTemplate, "--chat-template-file", "PATH", "LLAMA_ARG_CHAT_TEMPLATE_FILE",
     "The same, from a file",
     [](Args& a, const Value& v) { a.chat_template_file = v.text; }},
    {kTemplate, "--chat-template-kwargs", "JSON", "LLAMA_CHAT_TEMPLATE_KWARGS",
     "Variables for the template; those of a request win",
     [](Args& a, const Value& v) { a.chat_template_kwargs = v.text; }},
    {kTemplate, "--reasoning-budget", "N", "LLAMA_ARG_THINK_BUDGET",
     "Thinking tokens; -1 = no limit, 0 = none (default: -1)",
     [](Args& a, const Value& v) { a.reasoning_budget = v.int32(-1, kMaxInt); }},
    {kTemplate, "--reasoning", "WHEN", "LLAMA_ARG_REASONING",
     "on, off, or auto: as the template has it (default: auto)",
     [](Args& a, const Value& v) {
       const std::string& when = v.one_of({"on", "off", "auto"});
       a.reasoning.reset();
       if (when != "auto") a.reasoning = when == "on";
     }},
    {kTemplate, "--reasoning-format", "FORMAT", "LLAMA_ARG_THINK",
     "Where thinking goes: auto, none, deepseek or deepseek-legacy (default: auto)",
     [](Args& a, const Value& v) {
       a.reasoning_format = v.one_of({"auto", "none", "deepseek", "deepseek-legacy"});
     }},
    {kTemplate, "--reasoning-alias-field", "NAME", "MLXCEL_REASONING_ALIAS_FIELD",
     "none, or reasoning: repeat it under that key (default: none)",
     [](Args& a, const Value& v) {
       a.reasoning_alias = v.one_of({"none", "reasoning"}) == "reasoning";
     }},
    {kTemplate, "--skip-chat-parsing,!--no-skip-chat-parsing", nullptr,
     "LLAMA_ARG_SKIP_CHAT_PARSING", "Put everything into the content",
     [](Args& a, const Value& v) { a.skip_chat_parsing = v.boolean(); }},
    {kTemplate, "--prefill-assistant,!--no-prefill-assistant", nullptr,
     "LLAMA_ARG_PREFILL_ASSISTANT", "Continue a last assistant message (default: on)",
     [](Args& a, const Value& v) { a.prefill_assistant = v.boolean(); }},
    {kTemplate, "--spm-infill", nullptr, nullptr, "Suffix before prefix in /infill",
     [](Args& a, const Value& v) { a.spm_infill = v.boolean(); }},

    {kEndpoints, "--slots,!--no-slots", nullptr, "LLAMA_ARG_ENDPOINT_SLOTS",
     "GET /slots (default: on)", [](Args& a, const Value& v) { a.slots_endpoint = v.boolean(); }},
    {kEndpoints, "--props", nullptr, "LLAMA_ARG_ENDPOINT_PROPS", "POST /props",
     [](Args& a, const Value& v) { a.props_endpoint = v.boolean(); }},
    {kEndpoints, "--metrics", nullptr, "LLAMA_ARG_ENDPOINT_METRICS",
     "GET /metrics, for Prometheus",
     [](Args& a, const Value& v) { a.metrics_endpoint = v.boolean(); }},
    {kEndpoints, "--settings", nullptr, "MLXCEL_ENABLE_SETTINGS_ENDPOINT",
     "GET and PATCH /v1/settings",
     [](Args& a, const Value& v) { a.settings_endpoint = v.boolean(); }},

    {kStores, "--responses-store-max-entries", "N", "LLAMA_ARG_RESPONSES_STORE_MAX_ENTRIES",
     "Responses kept; 0 = none (default: 1024)",
     [](Args& a, const Value& v) { a.responses_entries = v.integer(0, kMaxInt); }},
    {kStores, "--responses-store-max-bytes", "BYTES", "LLAMA_ARG_RESPONSES_STORE_MAX_BYTES",
     "Their size (default: 268435456)",
     [](Args& a, const Value& v) { a.responses_bytes = v.bytes(); }},
    {kStores, "--responses-store-ttl-secs", "SECS", "LLAMA_ARG_RESPONSES_STORE_TTL_SECS",
     "Their life; 0 = for ever (default: 3600)",
     [](Args& a, const Value& v) { a.responses_ttl_s = v.integer(0, kMaxInt); }},
    {kStores, "--conversation-store-max-entries", "N",
     "LLAMA_ARG_CONVERSATION_STORE_MAX_ENTRIES", "Conversations kept (default: 256)",
     [](Args& a, const Value& v) { a.conversation_entries = v.integer(0, kMaxInt); }},
    {kStores, "--conversation-store-max-bytes", "BYTES",
     "LLAMA_ARG_CONVERSATION_STORE_MAX_BYTES", "Their size (default: 67108864)",
     [](Args& a, const Value& v) { a.conversation_bytes = v.bytes(); }},
    {kStores, "--conversation-store-ttl-secs", "SECS", "LLAMA_ARG_CONVERSATION_STORE_TTL_SECS",
     "Their life; 0 = for ever (default: 3600)",
     [](Args& a, const Value& v) { a.conversation_ttl_s = v.integer(0, kMaxInt); }},

    {kSampling, "-n,--n-predict,--predict", "N", "LLAMA_ARG_N_PREDICT",
     "Tokens of an answer: default and upper bound; -1 = no limit (default: -1)",
     [](Args& a, const Value& v) {
       a.max_tokens = v.int32(-1, kMaxInt);
       a.max_tokens_given = a.max_tokens >= 0;
     }},
    {kSampling, "--temp,--temperature", "FLOAT", nullptr,
     "Temperature; 0 = always the most likely token (default: 0.8)",
     [](Args& a, const Value& v) { a.sampling.temperature = v.number(0, kAny); }},
    {kSampling, "--top-k", "K", "LLAMA_ARG_TOP_K", "Only the K most likely; 0 = off (default: 40)",
     [](Args& a, const Value& v) { a.sampling.top_k = v.int32(-kMaxInt, kMaxInt); }},
    {kSampling, "--top-p", "FLOAT", nullptr, "Nucleus sampling; 1 = off (default: 0.9)",
     [](Args& a, const Value& v) { a.sampling.top_p = v.number(0, 1); }},
    {kSampling, "--min-p", "FLOAT", nullptr, "Share of the best; 0 = off (default: 0.1)",
     [](Args& a, const Value& v) { a.sampling.min_p = v.number(0, 1); }},
    {kSampling, "-s,--seed", "N", nullptr, "Seed; -1 = random (default: -1)",
     [](Args& a, const Value& v) { a.sampling.seed = v.integer(-1, 4294967295); }},
    {kSampling, "--repeat-last-n", "N", nullptr,
     "Window of the penalties; -1 = everything (default: 64)",
     [](Args& a, const Value& v) { a.sampling.repeat_last_n = v.int32(-1, kMaxInt); }},
    {kSampling, "--repeat-penalty", "FLOAT", nullptr, "1 = off (default: 1)",
     [](Args& a, const Value& v) { a.sampling.repetition_penalty = v.number(0, kAny); }},
    {kSampling, "--presence-penalty", "FLOAT", nullptr, "0 = off (default: 0)",
     [](Args& a, const Value& v) { a.sampling.presence_penalty = v.number(-kAny, kAny); }},
    {kSampling, "--frequency-penalty", "FLOAT", nullptr, "0 = off (default: 0)",
     [](Args& a, const Value& v) { a.sampling.frequency_penalty = v.number(-kAny, kAny); }},
    {kSampling, "--dry-multiplier", "FLOAT", nullptr, "DRY penalty; 0 = off (default: 0)",
     [](Args& a, const Value& v) { a.sampling.dry_multiplier = v.number(0, kAny); }},
    {kSampling, "--dry-base", "FLOAT", nullptr, "DRY exponential base (default: 1.75)",
     [](Args& a, const Value& v) { a.sampling.dry_base = v.number(0, kAny); }},
    {kSampling, "--dry-allowed-length", "N", nullptr,
     "Repeats up to this length are free (default: 2)",
     [](Args& a, const Value& v) { a.sampling.dry_allowed_length = v.int32(0, kMaxInt); }},
    {kSampling, "--dry-penalty-last-n", "N", nullptr, "DRY window; 0 = off (default: 64)",
     [](Args& a, const Value& v) { a.sampling.dry_penalty_last_n = v.int32(0, kMaxInt); }},
    {kSampling, "--dry-sequence-breaker,--dry-sequence-breakers", "LIST", nullptr,
     "Comma-separated strings that end a DRY match; none = no such string",
     [](Args& a, const Value& v) { a.sampling.dry_sequence_breakers = v.text; }},
    {kSampling, "--typical", "FLOAT", nullptr, "Locally typical sampling; 1 = off (default: 1)",
     [](Args& a, const Value& v) { a.sampling.typical_p = v.number(0, 1); }},
    {kSampling, "--top-nsigma,--top-n-sigma", "FLOAT", nullptr,
     "Keep logits within N deviations; not above 0 = off (default: -1)",
     [](Args& a, const Value& v) { a.sampling.top_n_sigma = std::max(0.0F, v.number(-kAny, kAny)); }},
    {kSampling, "--xtc-probability", "FLOAT", nullptr, "0 = off (default: 0)",
     [](Args& a, const Value& v) { a.sampling.xtc_probability = v.number(0, 1); }},
    {kSampling, "--xtc-threshold", "FLOAT", nullptr, "From which XTC excludes (default: 0.1)",
     [](Args& a, const Value& v) { a.sampling.xtc_threshold = v.number(0, 1); }},
    {kSampling, "--dynatemp-range", "FLOAT", nullptr, "0 = off (default: 0)",
     [](Args& a, const Value& v) { a.sampling.dynatemp_range = v.number(0, kAny); }},
    {kSampling, "--dynatemp-exp", "FLOAT", nullptr, "Its exponent (default: 1)",
     [](Args& a, const Value& v) { a.sampling.dynatemp_exp = v.number(0, kAny); }},
    {kSampling, "--mirostat", "N", nullptr, "0 = off, 1 or 2 = version (default: 0)",
     [](Args& a, const Value& v) { a.sampling.mirostat = v.int32(0, 2); }},
    {kSampling, "--mirostat-lr", "FLOAT", nullptr, "Learning rate (default: 0.1)",
     [](Args& a, const Value& v) { a.sampling.mirostat_lr = v.number(0, kAny); }},
    {kSampling, "--mirostat-ent", "FLOAT", nullptr, "Target entropy (default: 5)",
     [](Args& a, const Value& v) { a.sampling.mirostat_ent = v.number(0, kAny); }},
    {kSampling, "--adaptive-target", "FLOAT", nullptr, "Adaptive-p target; below 0 = off",
     [](Args& a, const Value& v) { a.adaptive_target = v.number(-kAny, 1); }},
    {kSampling, "--adaptive-decay", "FLOAT", nullptr, "Its decay (default: 0.9)",
     [](Args& a, const Value& v) { a.adaptive_decay = v.number(0, 1); }},
    {kSampling, "--ignore-eos", nullptr, nullptr, "Do not end at the model's end-of-text",
     [](Args& a, const Value& v) { a.ignore_eos = v.boolean(); }},
    {kSampling, "-l,--logit-bias", "ID+BIAS", nullptr, "Added to a token's logit; may be repeated",
     set_logit_bias, Many},
    {kSampling, "-r,--reverse-prompt", "STRING", nullptr,
     "Stop string of every request; may be repeated",
     [](Args& a, const Value& v) {
       if (v.text.empty()) throw v.refused("a text");
       a.stop.push_back(v.text);
     },
     Many},
    {kSampling, "--samplers", "LIST", nullptr, "The fixed order of the samplers", check_samplers},
    {kSampling, "--sampler-seq,--sampling-seq", "CHARS", nullptr, "The same in letters",
     check_samplers},

    {kLogging, "-v,--verbose", nullptr, nullptr, "Log everything",
     [](Args& a, const Value& v) {
       if (v.boolean()) a.log_level = 5;
       a.verbose = v.boolean();
     }},
    {kLogging, "--log-verbosity,--verbosity", "N", "LLAMA_LOG_VERBOSITY",
     "0 nothing, 1 errors, 2 warnings, 3 requests, 4 and 5 details (default: 3)",
     [](Args& a, const Value& v) { a.log_level = v.int32(0, 99); }},
    {kLogging, "--log-disable", nullptr, nullptr, "Log nothing",
     [](Args& a, const Value& v) { a.log_disable = v.boolean(); }},
    {kLogging, "--log-file", "PATH", "LLAMA_LOG_FILE", "Log to this file instead of stderr",
     [](Args& a, const Value& v) { a.log_file = v.text; }},
};

}  // namespace

std::span<const ServeFlag> serve_flags() { return kFlags; }

}  // namespace mlxcel::apps

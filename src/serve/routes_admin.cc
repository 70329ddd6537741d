#include "serve/routes_admin.h"

#include <fmt/core.h>

#include "base/env.h"
#include "serve/metrics_text.h"
#include "serve/wire/error.h"
#include "serve/wire/native_json.h"

namespace mlxcel::serve {
namespace {

using Auth = Router::Auth;

/// A route whose answer is a function of the request.
template <class Fn>
Handler replying(Fn&& fn) {
  return [fn = std::forward<Fn>(fn)](const std::shared_ptr<Exchange>& exchange) {
    exchange->reply(fn(exchange->request()));
  };
}

Json strings(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push_back(text);
  return list;
}

HttpResponse answer_health(const ServerState& state) {
  return json_response(
      Json::object({{"status", "ok"}, {"context_size", state.model.engine->context_tokens()}}));
}

HttpResponse answer_models(const ServerState& state, const AdminOptions& options) {
  const ServedModel& m = state.model;
  Json meta = Json::object({{"n_vocab", m.vocab_size},
                            {"n_ctx_train", m.train_context_tokens},
                            {"n_embd", options.hidden_size},
                            {"n_params", m.num_parameters},
                            {"size", m.weight_bytes}});
  Json modalities = Json::object(
      {{"input_modalities", Json::array({"text"})}, {"output_modalities", Json::array({"text"})}});
  Json entry = Json::object({{"id", m.id},
                             {"object", "model"},
                             {"created", m.created_unix_s},
                             {"owned_by", "llamacpp"},
                             {"aliases", strings(m.aliases)},
                             {"tags", strings(options.tags)},
                             {"architecture", std::move(modalities)},
                             {"capabilities", Json::array({"completion"})},
                             {"meta", std::move(meta)}});
  Json details = Json::object({{"parent_model", ""},
                               {"format", options.weight_format},
                               {"family", m.family},
                               {"families", Json::array({m.family})},
                               {"parameter_size", std::to_string(m.num_parameters)},
                               {"quantization_level", options.quantization}});
  Json native = Json::object({{"name", m.id},
                              {"model", m.id},
                              {"modified_at", ""},
                              {"size", std::to_string(m.weight_bytes)},
                              {"digest", ""},
                              {"type", "model"},
                              {"description", ""},
                              {"tags", strings(options.tags)},
                              {"capabilities", Json::array({"completion"})},
                              {"parameters", ""},
                              {"details", std::move(details)}});
  return json_response(Json::object({{"models", Json::array({std::move(native)})},
                                     {"object", "list"},
                                     {"data", Json::array({std::move(entry)})}}));
}

const char* reasoning_name(ReasoningFormat format) {
  switch (format) {
    case ReasoningFormat::None:
      return "none";
    case ReasoningFormat::DeepseekLegacy:
      return "deepseek-legacy";
    case ReasoningFormat::Auto:
    case ReasoningFormat::Deepseek:
      break;
  }
  return "deepseek";
}

Json default_settings(const ServerState& state) {
  const auto defaults = state.defaults();
  engine::Request request;
  request.sampling = defaults->sampling;
  request.max_tokens = defaults->max_tokens;
  Json params = wire::settings_json(request, false);
  const auto add = [&](const char* name, Json value) {
    if (params.find(name) == nullptr) params.set(name, std::move(value));
  };
  add("chat_format", "Content-only");
  add("reasoning_format", reasoning_name(state.generation.reasoning_format));
  add("reasoning_in_content", false);
  add("generation_prompt", "");
  add("timings_per_token", false);
  return Json::object(
      {{"params", std::move(params)}, {"n_ctx", state.model.engine->context_tokens()}});
}

HttpResponse answer_props(const ServerState& state, const AdminOptions& options) {
  const ServedModel& m = state.model;
  const std::string media_marker = env::get("LLAMA_MEDIA_MARKER").value_or("<__media__>");
  return json_response(
      Json::object({{"default_generation_settings", default_settings(state)},
                    {"total_slots", state.num_slots},
                    {"model_alias", m.id},
                    {"model_ftype", options.quantization},
                    {"model_path", m.path},
                    {"modalities", Json::object({{"vision", false}, {"audio", false}})},
                    {"media_marker", media_marker},
                    {"endpoint_slots", state.slots_endpoint},
                    {"endpoint_props", state.props_endpoint},
                    {"endpoint_metrics", state.metrics_endpoint},
                    {"ui", false},
                    {"ui_settings", Json::object()},
                    {"chat_template", m.chat.template_source},
                    {"chat_template_caps", Json::object()},
                    {"bos_token", m.chat.bos_token},
                    {"eos_token", m.chat.eos_token},
                    {"build_info", wire::system_fingerprint()},
                    {"is_sleeping", false},
                    {"cors_proxy_enabled", false},
                    {"kv_cache_mode", "fp16"},
                    {"kv_bits", 0},
                    {"speculative", Json()},
                    {"capabilities", Json::object({{"generation", true}})}}));
}

HttpResponse answer_slots(const ServerState& state, const HttpRequest& request) {
  if (!state.slots_endpoint) {
    return error_response(
        not_supported("This server does not support slots endpoint. Start it with `--slots`"));
  }
  if (request.query_value("fail_on_no_slot") != nullptr &&
      state.slots->num_busy() >= state.num_slots) {
    return error_response(
        {.status = 503, .type = "unavailable_error", .message = "no slot available", .extra = {}});
  }
  return json_response(state.slots->json(state.model.engine->context_tokens()));
}

HttpResponse answer_metrics(const ServerState& state, const AdminOptions& options) {
  if (!state.metrics_endpoint) {
    return error_response(
        not_supported("This server does not support metrics endpoint. Start it with `--metrics`"));
  }
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.headers.emplace_back("Process-Start-Time-Unix", std::to_string(options.started_unix_s));
  response.body = metrics_text(state);
  return response;
}

HttpResponse answer_cache(const ServerState& state) {
  const Json stats = state.model.engine->stats();
  const Json& cache = *stats.find("prefix_cache");
  const auto count = [&](const char* name) {
    const Json* value = cache.find(name);
    return value == nullptr ? 0.0 : value->as_double();
  };
  Json prompt = cache;
  prompt.set("hit_rate", count("lookups") > 0 ? count("hits") / count("lookups") : 0.0);
  Json pool = Json::object();
  for (const auto& [name, value] : stats.find("gauges")->as_object()) {
    if (name.starts_with("blocks_") || name.starts_with("kv_")) pool.set(name, value);
  }
  return json_response(
      Json::object({{"prompt_cache", std::move(prompt)}, {"paged_pool", std::move(pool)}}));
}

void add_settings(Router& router, SettingsStore* settings) {
  for (const char* path : {"/v1/settings", "/settings"}) {
    if (settings == nullptr) {
      for (const char* method : {"GET", "PATCH"}) {
        router.add(method, path, replying([](const HttpRequest&) {
                     return error_response(
                         not_supported("settings are not open; start the server with --settings"));
                   }));
      }
      continue;
    }
    router.add("GET", path, replying([settings](const HttpRequest&) {
                 return json_response(settings->json());
               }));
    router.add("PATCH", path, replying([settings](const HttpRequest& request) {
                 const Json body = Json::parse(request.body).value();
                 return json_response(settings->patch(body).value());
               }));
  }
}

}  // namespace

void add_admin_routes(Router& router, ServerState& state, const AdminOptions& options) {
  const ServerState* s = &state;
  const Handler health = replying([s](const HttpRequest&) { return answer_health(*s); });
  const Handler models =
      replying([s, options](const HttpRequest&) { return answer_models(*s, options); });
  for (const char* path : {"/health", "/v1/health"}) {
    router.add("GET", path, health, Auth::Public);
  }
  if (!options.vertex_health_path.empty() &&
      router.find("GET", options.vertex_health_path).handler == nullptr) {
    router.add("GET", options.vertex_health_path, health);
  }
  for (const char* path : {"/models", "/v1/models"}) {
    router.add("GET", path, models, Auth::Public);
  }
  router.add("GET", "/props",
             replying([s, options](const HttpRequest&) { return answer_props(*s, options); }));
  router.add("POST", "/props", replying([s](const HttpRequest&) {
               if (s->props_endpoint) return json_response(Json::object({{"success", true}}));
               return error_response(not_supported(
                   "This server does not support changing global properties. Start it with "
                   "`--props`"));
             }));
  router.add("GET", "/slots",
             replying([s](const HttpRequest& request) { return answer_slots(*s, request); }));
  router.add("GET", "/metrics",
             replying([s, options](const HttpRequest&) { return answer_metrics(*s, options); }));
  router.add("GET", "/v1/cache/stats",
             replying([s](const HttpRequest&) { return answer_cache(*s); }));
  add_settings(router, options.settings);
}

}  // namespace mlxcel::serve

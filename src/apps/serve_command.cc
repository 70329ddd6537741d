// serve: binds, loads, answers until a signal ends it.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "apps/commands.h"
#include "apps/load_model.h"
#include "apps/memory_estimate.h"
#include "apps/served_model.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/log_file.h"
#include "serve/http/server.h"
#include "serve/routes_admin.h"
#include "serve/routes_generation.h"
#include "serve/settings.h"

namespace mlxcel::apps {
namespace {

void check_memory(const ServeArguments& a, const LoadedChatModel& model) {
  if (!a.estimate_memory) return;
  EstimateInputs inputs;
  inputs.batch = a.engine.max_batch;
  if (a.engine.context_tokens > 0) inputs.context_tokens = a.engine.context_tokens;
  const MemoryEstimate estimate = estimate_memory(model.location.path, model.name, inputs);
  fmt::print(stderr, "{}\n", estimate_banner(estimate));
  if (estimate.fits) return;
  const std::string what = fmt::format("the model needs about {}, and {} are available",
                                       byte_text(estimate.total), byte_text(estimate.available));
  if (!a.force) throw Error(Code::ResourceExhausted, what + "; --force tries it all the same");
  log::warn("{}", what);
}

/// Runs one token, so that the first client does not wait for what is made on first use.
void warm_up(const serve::ServedModel& model) {
  struct Waiter final : engine::EventSink {
    std::atomic<bool> done{false};
    void push(engine::Event event) noexcept override {
      if (std::holds_alternative<engine::TokenEvent>(event)) return;
      done = true;
      done.notify_all();
    }
  };
  engine::Request request;
  request.prompt = {model.tokenizer->bos_id().value_or(0)};
  request.max_tokens = 1;
  request.use_prefix_cache = false;
  auto waiter = std::make_shared<Waiter>();
  if (!model.engine->submit(std::move(request), waiter).ok()) return;
  waiter->done.wait(false);
}

void start_log(const ServeArguments& a) {
  using enum log::Level;
  if (!a.log_file.empty()) with_context("--log-file", [&] { log::write_to_file(a.log_file); });
  constexpr log::Level kLevels[] = {Off, Error, Warn, Info, Debug, Trace};
  if (a.log_disable) {
    log::set_level(Off);
  } else if (a.log_level >= 0) {
    log::set_level(kLevels[std::min(a.log_level, 5)]);
  } else if (!env::get("MLXCEL_LOG")) {
    log::set_level(Info);
  }
}

serve::ApiKeys read_keys(const ServeArguments& a) {
  serve::ApiKeys keys;
  for (const std::string& key : a.api_keys) keys.add(key);
  for (const std::string& path : a.api_key_files) keys.add_file(path);
  return keys;
}

/// Whoever reaches the server could change its defaults, so others than this machine need a key.
void check_exposure(const ServeArguments& a, const serve::ApiKeys& keys) {
  const std::string& host = a.http.host;
  const bool here =
      host.starts_with("127.") || host == "::1" || host == "localhost" || host.ends_with(".sock");
  if (!a.settings_endpoint || here || !keys.empty()) return;
  throw Error(
      Code::InvalidArgument,
      fmt::format("--settings on {} lets everybody change the defaults; give --api-key too", host));
}

int32_t handler_threads(const ServeArguments& a) {
  if (a.http_threads > 0) return a.http_threads;
  const auto processors = static_cast<int32_t>(std::thread::hardware_concurrency());
  return std::max(a.num_slots + 4, processors - 1);
}

}  // namespace

int serve(const ServeArguments& arguments) {
  start_log(arguments);
  for (const std::string& flag : arguments.without_effect) {
    log::info("{} has no effect here", flag);
  }
  check_environment();
  const Device device = choose_device();
  serve::ApiKeys keys = read_keys(arguments);
  check_exposure(arguments, keys);
  serve::Dispatcher dispatcher(std::move(keys), arguments.cors, arguments.api_prefix);
  serve::ServerState state;
  serve::Router router;
  serve::HttpServerOptions http = arguments.http;
  http.num_handlers = handler_threads(arguments);
  const auto server = serve::HttpServer::start(http, dispatcher);
  std::atomic<bool> ready{false};
  server->on_signal([&](int count) {
    if (!ready || count > 2) {
      if (server->port() == 0) ::unlink(http.host.c_str());
      std::_Exit(130);
    }
    log::info("{}",
              count == 1 ? "stopping when the running requests are answered" : "stopping now");
    count == 1 ? server->drain() : server->stop();
  });

  LoadedChatModel loaded = load_without_weights(
      arguments.model.model, io::resolve_model(arguments.model.model, arguments.model.hub));
  apply_template_flags(arguments, loaded.chat);
  check_memory(arguments, loaded);
  fmt::print(stderr, "Loading model from {}\n", loaded.location.path);
  serve::RequestDefaults defaults = make_request_defaults(arguments, loaded);
  load_weights(loaded, device);
  fmt::print(stderr, "Model loaded in {:.2f}s.\n", loaded.load_seconds);
  state.model = make_served_model(arguments, loaded);
  serve::SettingsStore settings(std::move(defaults), fixed_settings(arguments, state.model));
  state.num_slots = arguments.num_slots;
  state.slots_endpoint = arguments.slots_endpoint;
  state.props_endpoint = arguments.props_endpoint;
  state.metrics_endpoint = arguments.metrics_endpoint;
  state.ping_interval = std::chrono::seconds(std::max(0, arguments.sse_ping_seconds));
  state.defaults = [&settings] { return settings.get(); };
  state.generation = make_generation_options(arguments);
  state.slots =
      std::make_shared<serve::SlotTable>(state.num_slots, env::present("LLAMA_SERVER_SLOTS_DEBUG"));
  if (arguments.warmup) warm_up(state.model);
  serve::add_admin_routes(
      router, state,
      make_admin_options(arguments, loaded, arguments.settings_endpoint ? &settings : nullptr));
  serve::add_prompt_routes(router, state);
  serve::add_refused_routes(router);
  serve::add_generation_routes(router, state);
  dispatcher.set_router(router);
  ready = true;
  fmt::print("Listening on {}{}\n", server->url(), arguments.api_prefix);
  std::fflush(stdout);
  server->wait();
  return 0;
}

}  // namespace mlxcel::apps

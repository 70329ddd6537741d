// serve: binds, loads, answers until a signal ends it.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <thread>

#include "apps/commands.h"
#include "apps/load_model.h"
#include "apps/memory_estimate.h"
#include "base/env.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "serve/http/server.h"
#include "serve/routes_admin.h"
#include "serve/routes_generation.h"
#include "serve/settings.h"

namespace mlxcel::apps {
namespace {

/// The names of --alias, sorted and without repetition.
std::vector<std::string> name_set(const std::string& list) {
  std::vector<std::string> names;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string name = list.substr(begin, end - begin);
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
    if (!name.empty()) names.push_back(std::move(name));
    begin = end + 1;
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string default_id(const LoadedChatModel& model) {
  if (!model.location.repo_id.empty()) return model.location.repo_id;
  const std::filesystem::path path(model.location.path);
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

void apply_template_flags(const ServeArguments& a, serve::ChatFormat& chat) {
  if (a.chat_template) chat.template_source = *a.chat_template;
  if (a.chat_template_file) chat.template_source = read_file(*a.chat_template_file);
  if (a.chat_template || a.chat_template_file) {
    const auto parsed = text::ChatTemplate::parse(chat.template_source);
    if (!parsed.ok()) throw parsed.error().within("--chat-template");
  }
  if (!a.chat_template_kwargs.empty()) {
    Json kwargs = with_context("--chat-template-kwargs",
                               [&] { return Json::parse(a.chat_template_kwargs).value(); });
    if (!kwargs.is_object()) {
      throw Error(Code::InvalidArgument, "--chat-template-kwargs: not a JSON object");
    }
    chat.extra_context = std::move(kwargs);
  }
}

serve::RequestDefaults make_defaults(const ServeArguments& a, const LoadedChatModel& model) {
  engine::SamplingParams p;
  p.temperature = 0.8F;
  p.top_k = 40;
  p.top_p = 0.9F;
  p.min_p = 0.1F;
  p.repeat_last_n = 64;
  p.dry_penalty_last_n = 64;
  p = a.sampling.over(model.defaults.over(p));
  if (a.adaptive_target) p.adaptive_target = *a.adaptive_target;
  if (a.adaptive_decay) p.adaptive_decay = *a.adaptive_decay;
  p.ignore_eos = a.ignore_eos;
  for (const auto& [id, bias] : a.logit_bias) p.logit_bias.emplace_back(id, bias);
  engine::validate(p);
  serve::RequestDefaults defaults;
  defaults.sampling = std::move(p);
  defaults.max_tokens = a.max_tokens;
  defaults.max_tokens_is_cap = a.max_tokens_given;
  if (a.reasoning_budget >= 0) defaults.reasoning_budget = a.reasoning_budget;
  return defaults;
}

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

serve::ServedModel make_served(const ServeArguments& a, LoadedChatModel& loaded) {
  serve::ServedModel served;
  const std::vector<std::string> names = name_set(a.alias);
  served.id = names.empty() ? default_id(loaded) : names.front();
  served.aliases = names;
  served.path = loaded.location.path;
  served.family = loaded.checkpoint.model_type();
  served.created_unix_s = std::time(nullptr);
  served.weight_bytes = loaded.checkpoint.weight_bytes();
  served.vocab_size = static_cast<int32_t>(loaded.lm->spec().vocab_size);
  served.train_context_tokens = static_cast<int32_t>(loaded.lm->spec().max_positions);
  served.tokenizer = loaded.tokenizer;
  served.chat = loaded.chat;
  served.stop_ids = loaded.eos_ids;
  served.engine = engine::Engine::start(loaded.lm, loaded.tokenizer, a.engine);
  return served;
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

void set_log_level(const ServeArguments& a) {
  using enum log::Level;
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

int32_t handler_threads(const ServeArguments& a) {
  if (a.http_threads > 0) return a.http_threads;
  const auto processors = static_cast<int32_t>(std::thread::hardware_concurrency());
  return std::max(a.num_slots + 4, processors - 1);
}

}  // namespace

int serve(const ServeArguments& arguments) {
  set_log_level(arguments);
  for (const std::string& flag : arguments.without_effect) {
    log::info("{} has no effect here", flag);
  }
  check_environment();
  const Device device = choose_device();
  serve::Dispatcher dispatcher(read_keys(arguments), arguments.cors, arguments.api_prefix);
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
  load_weights(loaded, device);
  fmt::print(stderr, "Model loaded in {:.2f}s.\n", loaded.load_seconds);
  serve::SettingsStore settings(make_defaults(arguments, loaded));
  state.model = make_served(arguments, loaded);
  state.num_slots = arguments.num_slots;
  state.slots_endpoint = arguments.slots_endpoint;
  state.props_endpoint = arguments.props_endpoint;
  state.metrics_endpoint = arguments.metrics_endpoint;
  state.ping_interval = std::chrono::seconds(std::max(0, arguments.sse_ping_seconds));
  state.defaults = [&settings] { return settings.get(); };
  if (arguments.warmup) warm_up(state.model);
  serve::add_admin_routes(router, state);
  serve::add_prompt_routes(router, state);
  serve::add_generation_routes(router, state);
  dispatcher.set_router(router);
  ready = true;
  fmt::print("Listening on {}{}\n", server->url(), arguments.api_prefix);
  std::fflush(stdout);
  server->wait();
  return 0;
}

}  // namespace mlxcel::apps

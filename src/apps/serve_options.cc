#include "apps/serve_options.h"

#include <fmt/core.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <optional>

#include "apps/command_line.h"
#include "apps/serve_flags.h"
#include "base/env.h"
#include "base/error.h"

namespace mlxcel::apps {
namespace {

/// The long name that messages use: "--port" of "-p,--port,!--no-port".
std::string display_name(std::string_view names) {
  const size_t at = names.find("--");
  if (at == std::string_view::npos) return std::string(names);
  names.remove_prefix(at);
  return std::string(names.substr(0, names.find(',')));
}

std::string help_text(const ServeFlag& flag) {
  std::string text = flag.help;
  if (flag.variables != nullptr && *flag.variables != '\0') {
    text += fmt::format(" [{}]", flag.variables);
  }
  return text;
}

struct OptionSet {
  std::vector<CLI::Option*> flags, unavailable, refused, idle;
};

CLI::Option* add_hidden(CLI::App& app, const char* names, UnavailableFlag::Value value) {
  CLI::Option* option = nullptr;
  if (value == UnavailableFlag::Value::None) {
    option = app.add_flag(names);
  } else {
    option = app.add_option(names);
    option->expected(1, value == UnavailableFlag::Value::Many ? 1 << 20 : 1);
  }
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return option->group("");
}

CLI::Option* add_flag(CLI::App& app, const ServeFlag& flag) {
  CLI::Option* option = nullptr;
  if (flag.type == nullptr) {
    option = app.add_flag(flag.names)->description(help_text(flag));
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  } else {
    option = app.add_option(flag.names)->description(help_text(flag))->type_name(flag.type);
    option->multi_option_policy(flag.count == ServeFlag::Count::Many
                                    ? CLI::MultiOptionPolicy::TakeAll
                                    : CLI::MultiOptionPolicy::TakeLast);
    if (flag.count == ServeFlag::Count::OptionalValue) {
      option->expected(0, 1)->default_str("true");
    } else {
      option->expected(1);
    }
  }
  return option->group(flag.group);
}

/// The first variable of the list that is set.
std::optional<FlagValue> from_environment(const char* variables) {
  std::string_view rest = variables == nullptr ? "" : variables;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string name(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (auto value = env::get(name.c_str())) return FlagValue{name, std::move(*value)};
  }
  return std::nullopt;
}

void apply(ServeArguments& arguments, const ServeFlag& flag, const CLI::Option& option) {
  if (option.count() == 0) {
    if (const auto value = from_environment(flag.variables)) flag.set(arguments, *value);
    return;
  }
  std::vector<std::string> results = option.results();
  const bool many = flag.count == ServeFlag::Count::Many;
  if (results.empty()) results = {"true"};
  if (!many) results.erase(results.begin(), results.end() - 1);
  for (std::string& text : results) {
    flag.set(arguments, {display_name(flag.names), std::move(text)});
  }
}

/// What depends on more than one flag.
void settle(ServeArguments& a) {
  if (a.model.model.empty()) {
    throw Error(Code::InvalidArgument,
                "--model is required (or LLAMA_ARG_MODEL); serving several models is not available "
                "in this build");
  }
  if (a.cors_origins_given && a.cors.allowed_origins) {
    throw Error(Code::InvalidArgument,
                "--cors-origins and --allowed-origins exclude each other; give one");
  }
  if (a.chat_template && a.chat_template_file) {
    throw Error(Code::InvalidArgument,
                "--chat-template and --chat-template-file exclude each other; give one");
  }
  if (a.batch_size && !a.engine.prefill_chunk_tokens) a.engine.prefill_chunk_tokens = a.batch_size;
  if (a.num_slots <= 0) a.num_slots = 4;
  if (!a.engine.batching) a.num_slots = 1;
  a.engine.max_batch = a.engine.batching ? a.max_batch.value_or(a.num_slots) : 1;
  const int32_t chunk = std::min(a.engine.prefill_chunk_tokens.value_or(512), 512);
  a.engine.max_batch_prefill_tokens =
      a.max_batch_prefill_tokens.value_or(2 * a.engine.max_batch_prefill * chunk);
  if (a.context_tokens > 0) {
    a.engine.context_tokens = a.context_tokens / a.engine.max_batch;
    if (a.engine.context_tokens < 1) {
      throw Error(Code::InvalidArgument,
                  fmt::format("--ctx-size: {} tokens do not reach for {} slots", a.context_tokens,
                              a.engine.max_batch));
    }
  }
  // A Vertex AI container is told its port this way, whatever its arguments say.
  if (env::get("AIP_MODE").value_or("") == "PREDICTION") {
    if (const auto port = env::get("AIP_HTTP_PORT")) {
      a.http.port = FlagValue{"AIP_HTTP_PORT", *port}.int32(0, 65535);
    }
  }
  engine::SamplingParams probe = a.sampling.over({});
  if (a.adaptive_target) probe.adaptive_target = *a.adaptive_target;
  if (a.adaptive_decay) probe.adaptive_decay = *a.adaptive_decay;
  engine::validate(probe);
}

ServeArguments read(const OptionSet& options) {
  for (size_t i = 0; i < options.refused.size(); ++i) {
    if (options.refused[i]->count() == 0) continue;
    const RefusedFlag& flag = refused_serve_flags()[i];
    throw Error(Code::Unsupported, fmt::format("{}: {}", display_name(flag.names), flag.reason));
  }
  for (size_t i = 0; i < options.unavailable.size(); ++i) {
    if (options.unavailable[i]->count() == 0) continue;
    throw Error(Code::Unsupported, fmt::format("{} is not available in this build",
                                               unavailable_serve_flags()[i].names));
  }
  ServeArguments arguments;
  for (size_t i = 0; i < options.flags.size(); ++i) {
    apply(arguments, serve_flags()[i], *options.flags[i]);
  }
  for (size_t i = 0; i < options.idle.size(); ++i) {
    if (options.idle[i]->count() > 0) {
      arguments.without_effect.push_back(display_name(idle_serve_flags()[i].names));
    }
  }
  settle(arguments);
  return arguments;
}

}  // namespace

std::function<ServeArguments()> add_serve_options(CLI::App& app) {
  auto options = std::make_shared<OptionSet>();
  for (const ServeFlag& flag : serve_flags()) options->flags.push_back(add_flag(app, flag));
  for (const UnavailableFlag& flag : unavailable_serve_flags()) {
    options->unavailable.push_back(add_hidden(app, std::string(flag.names).c_str(), flag.value));
  }
  for (const RefusedFlag& flag : refused_serve_flags()) {
    options->refused.push_back(add_hidden(app, flag.names, flag.value));
  }
  for (const UnavailableFlag& flag : idle_serve_flags()) {
    options->idle.push_back(add_hidden(app, std::string(flag.names).c_str(), flag.value));
  }
  return [options] { return read(*options); };
}

ParsedCommandLine parse_server_command_line(const std::vector<std::string>& arguments) {
  CLI::App app("Serves a model over HTTP. `mlxcel-server download` fetches one.", "mlxcel-server");
  bool version = false;
  app.add_flag("-V,--version", version, "Print what this program was built from");
  const auto read_options = add_serve_options(app);
  std::vector<std::string> reversed;
  for (auto it = arguments.rbegin(); it != arguments.rend(); ++it) {
    reversed.push_back(canonical_flag(*it));
  }
  const auto usage = [](const std::string& message) {
    return ParsedCommandLine{
        .command = {},
        .exit_code = 2,
        .out = {},
        .err = fmt::format("error: {}\nTry 'mlxcel-server --help'.\n", message)};
  };
  try {
    app.parse(std::move(reversed));
    if (version) return {.command = VersionArguments{}, .exit_code = 0, .out = {}, .err = {}};
    return {.command = read_options(), .exit_code = 0, .out = {}, .err = {}};
  } catch (const CLI::CallForHelp&) {
    return {.command = {}, .exit_code = 0, .out = app.help(), .err = {}};
  } catch (const CLI::ParseError& e) {
    return usage(e.what());
  } catch (const Error& e) {
    return usage(e.message());
  }
}

}  // namespace mlxcel::apps

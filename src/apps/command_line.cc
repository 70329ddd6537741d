#include "apps/command_line.h"

#include <fmt/core.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <type_traits>

#include "apps/serve_flags.h"
#include "apps/serve_options.h"
#include "apps/unavailable.h"
#include "base/error.h"

namespace mlxcel::apps {
namespace {

constexpr const char* kModelHelp = "Local path, owner/name on the hub, or a bare model name";
constexpr int kUsageError = 2;

/// Accepts decimal numbers that fit T. The conversion of the library alone takes an empty value for
/// 0, a leading 0 for octal, and clamps what is too large for 64 bits.
template <class T>
CLI::Validator decimal() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (text.empty()) return "the value is empty, but a number is expected";
        if constexpr (std::is_integral_v<T>) {
          T value = 0;
          const char* end = text.data() + text.size();
          const auto [at, problem] = std::from_chars(text.data(), end, value);
          if (problem != std::errc() || at != end) {
            return fmt::format("'{}' is not a whole number from {} to {}", text,
                               std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
          }
          text = std::to_string(value);
        }
        return {};
      },
      "", "");
}

/// An option into an optional<T>, which stays empty when the flag is absent.
template <class T>
CLI::Option* optional_option(CLI::App& app, const char* names, std::optional<T>& target,
                             const char* help, const char* type) {
  CLI::Option* option =
      app.add_option_function<T>(names, [&target](const T& value) { target = value; }, help);
  if constexpr (std::is_arithmetic_v<T>) option->transform(decimal<T>());
  return option->type_name(type);
}

void add_hub_options(CLI::App& app, io::HubOptions& hub) {
  app.add_option("--models-dir", hub.models_dir, "Model store root")->type_name("PATH");
  app.add_option("--revision", hub.revision, "Branch, tag or commit of the repository")
      ->type_name("REV");
}

void add_model_source(CLI::App& app, ModelArguments& model) {
  add_hub_options(app, model.hub);
  app.add_option("--hf-file", model.hub.file, "One GGUF file of the repository")->type_name("FILE");
  app.add_option("--token", model.hub.token, "Hub access token (default: HF_TOKEN)")
      ->type_name("TOKEN");
  app.add_flag("--offline", model.hub.offline, "Never download");
}

void add_sampling(CLI::App& app, SamplingFlags& s) {
  const auto number = [&](const char* names, std::optional<float>& target, const char* help) {
    optional_option(app, names, target, help, "FLOAT")->group("Sampling");
  };
  const auto integer = [&](const char* names, std::optional<int32_t>& target, const char* help) {
    optional_option(app, names, target, help, "N")->group("Sampling");
  };
  number("-t,--temp", s.temperature, "Temperature; 0 = always the most likely token");
  number("--top-p", s.top_p, "Nucleus sampling; 1 = off");
  integer("--top-k", s.top_k, "Only the K most likely tokens; 0 = off");
  number("--min-p", s.min_p, "Drop tokens below this share of the best; 0 = off");
  number("--repetition-penalty", s.repetition_penalty, "Penalty on tokens that occurred; 1 = off");
  integer("--repeat-last-n", s.repeat_last_n, "Its window in tokens; -1 = everything, 0 = off");
  number("--dry-multiplier", s.dry_multiplier, "DRY penalty; 0 = off");
  number("--dry-base", s.dry_base, "DRY exponential base");
  integer("--dry-allowed-length", s.dry_allowed_length, "Repeats up to this length are free");
  integer("--dry-penalty-last-n", s.dry_penalty_last_n,
          "DRY window in tokens; -1 = everything, 0 = off");
  number("--top-n-sigma,--top-nsigma", s.top_n_sigma, "Keep logits within N deviations; 0 = off");
  number("--typical-p,--typical", s.typical_p, "Locally typical sampling; 1 = off");
  app.add_flag("--p-less", s.p_less, "Keep tokens at least as likely as a random draw is right")
      ->group("Sampling");
  optional_option(app, "--seed", s.seed, "Seed of the random numbers; -1 = random", "N")
      ->group("Sampling");
}

/// Sampling flags that only the chat front end has.
void add_chat_sampling(CLI::App& app, SamplingFlags& s) {
  const auto number = [&](const char* names, std::optional<float>& target, const char* help) {
    optional_option(app, names, target, help, "FLOAT")->group("Sampling");
  };
  number("--frequency-penalty", s.frequency_penalty, "Penalty per occurrence; 0 = off");
  number("--presence-penalty", s.presence_penalty, "Penalty on any occurrence; 0 = off");
  number("--xtc-probability", s.xtc_probability, "Chance of excluding top choices; 0 = off");
  number("--xtc-threshold", s.xtc_threshold, "Probability from which XTC excludes");
  optional_option(app, "--mirostat", s.mirostat, "0 = off, 1 or 2 = Mirostat version", "N")
      ->group("Sampling");
  number("--mirostat-lr", s.mirostat_lr, "Mirostat learning rate");
  number("--mirostat-ent", s.mirostat_ent, "Mirostat target entropy");
  number("--dynatemp-range", s.dynatemp_range, "Dynamic temperature range; 0 = off");
  number("--dynatemp-exp", s.dynatemp_exp, "Dynamic temperature exponent");
  optional_option(app, "--dry-sequence-breaker", s.dry_sequence_breakers,
                  "Comma-separated strings that end a DRY match; none = no such string", "LIST")
      ->group("Sampling");
}

/// Reserved flags of one command; refuse() names the first that was given.
class Reserved {
 public:
  void add(CLI::App& app, std::span<const UnavailableFlag> flags) {
    for (const UnavailableFlag& flag : flags) {
      const std::string names(flag.names);
      CLI::Option* option = nullptr;
      if (flag.value == UnavailableFlag::Value::None) {
        option = app.add_flag(names);
      } else {
        option = app.add_option(names, values_);
        option->expected(1, flag.value == UnavailableFlag::Value::Many ? 1 << 20 : 1);
      }
      options_.emplace_back(names, option->group(""));
    }
  }
  void refuse() const {
    for (const auto& [names, option] : options_) {
      if (option->count() == 0) continue;
      throw Error(Code::Unsupported, fmt::format("{} is not available in this build", names));
    }
  }

 private:
  std::vector<std::pair<std::string, const CLI::Option*>> options_;
  std::vector<std::string> values_;
};

/// The key/value cache types of generate, run and inspect. Only some modes exist in this build.
struct CacheTypes {
  std::string mode, k, v;
  void add(CLI::App& app, bool listed) {
    const std::string group = listed ? "Options" : "";
    app.add_option("--kv-cache-mode", mode, "K/V cache type: fp16 or int8")->group(group);
    app.add_option("--cache-type-k", k, "K cache type; wins over --kv-cache-mode")->group(group);
    app.add_option("--cache-type-v", v, "V cache type; wins over --kv-cache-mode")->group(group);
  }
  /// Fills in what was not given and checks the names; `available` are those that work here.
  void settle(std::initializer_list<std::string_view> available) {
    const bool split = !k.empty() || !v.empty();
    const std::string both = mode.empty() || split ? "fp16" : mode;
    check("--kv-cache-mode", mode, available);
    check("--cache-type-k", k, available);
    check("--cache-type-v", v, available);
    if (k.empty()) k = both;
    if (v.empty()) v = both;
  }

 private:
  static void check(const char* flag, const std::string& value,
                    std::initializer_list<std::string_view> available) {
    constexpr std::string_view kKnown[] = {"fp16",        "int8",   "fp16+turbo4",
                                           "fp16+turbo3", "turbo4", "turbo4-delegated"};
    if (value.empty() || std::find(available.begin(), available.end(), value) != available.end()) {
      return;
    }
    const bool known = std::find(std::begin(kKnown), std::end(kKnown), value) != std::end(kKnown);
    throw Error(known ? Code::Unsupported : Code::InvalidArgument,
                known ? fmt::format("{} {} is not available in this build", flag, value)
                      : fmt::format("{}: unknown value '{}'; expected one of fp16, int8, "
                                    "fp16+turbo4, fp16+turbo3, turbo4, turbo4-delegated",
                                    flag, value));
  }
};

void add_generation(CLI::App& app, GenerateArguments& g) {
  optional_option(app, "-p,--prompt", g.prompt, "Prompt; without it an interactive chat starts",
                  "TEXT");
  app.add_option("-n,--max-tokens", g.max_tokens, "Tokens to generate; -1 = until the end")
      ->transform(decimal<decltype(g.max_tokens)>())
      ->type_name("N");
  app.add_flag("--profile", g.profile, "Print timings of prefill and decode");
  app.add_flag("--no-chat-template", g.no_chat_template, "Give the prompt to the model as it is");
  app.add_flag("--show-reasoning", g.show_reasoning, "Print the reasoning of the model, too");
  app.add_option("--stop", g.stop, "Stop when the answer contains this; may be repeated")
      ->type_name("STRING")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  const auto constraint = [&](const char* name, std::optional<std::string>& target,
                              const char* help, const char* type) {
    optional_option(app, name, target, help, type)->group("Structured output");
  };
  constraint("--grammar", g.grammar.grammar, "The answer must match this GBNF grammar", "TEXT");
  constraint("--grammar-file", g.grammar.grammar_file, "The grammar of this file", "PATH");
  constraint("--json-schema", g.grammar.json_schema,
             "The answer must be JSON that is valid under this schema; {} = any object", "JSON");
  constraint("--json-schema-file", g.grammar.json_schema_file, "The schema of this file", "PATH");
  app.add_flag("--estimate-memory", g.estimate_memory,
               "Check before loading that the model fits into memory");
  app.add_flag("--force,--no-memory-check", g.force, "Go on when that check fails");
}

/// One sub-command while it is being parsed.
struct Slot {
  CLI::App* app = nullptr;
  std::function<Command()> finish;
};

void check_generation(const GenerateArguments& g) {
  if (g.max_tokens < -1) {
    throw Error(Code::InvalidArgument,
                fmt::format("--max-tokens: {} is not -1 (no limit) or a count", g.max_tokens));
  }
  if (g.sampling.seed && *g.sampling.seed < -1) {
    throw Error(Code::InvalidArgument,
                fmt::format("--seed: {} is not -1 (random) or a number >= 0", *g.sampling.seed));
  }
  for (const std::string& stop : g.stop) {
    if (stop.empty()) throw Error(Code::InvalidArgument, "--stop: the string is empty");
  }
  engine::validate(g.sampling.over({}));
}

template <class Arguments>
Slot make_generate(CLI::App& root, bool is_run) {
  auto args = std::make_shared<Arguments>();
  auto reserved = std::make_shared<Reserved>();
  auto cache = std::make_shared<CacheTypes>();
  CLI::App* app =
      is_run ? root.add_subcommand("run", "Chat with a model, or answer one prompt with -p")
             : root.add_subcommand("generate", "Generate text from a prompt")->alias("gen");
  if (is_run) {
    args->model.model = "mlx-community/gemma-4-e2b-it-4bit";
    app->add_option("MODEL_OR_REPO_ID", args->model.model, kModelHelp)->capture_default_str();
  } else {
    app->add_option("-m,--model", args->model.model, kModelHelp)
        ->type_name("PATH_OR_REPO_ID")
        ->required();
  }
  add_model_source(*app, args->model);
  add_generation(*app, *args);
  add_sampling(*app, args->sampling);
  if (is_run) add_chat_sampling(*app, args->sampling);
  cache->add(*app, false);
  reserved->add(*app, is_run ? unavailable_run_flags() : unavailable_generate_flags());
  return {app, [=]() -> Command {
            reserved->refuse();
            cache->settle({"fp16"});
            check_generation(*args);
            return *args;
          }};
}

std::string canonical_quant(const std::string& quant) {
  if (quant == "default" || quant == "fp16" || quant == "int8" || quant == "int4") return quant;
  if (quant == "float16") return "fp16";
  if (quant == "i8") return "int8";
  if (quant == "i4") return "int4";
  throw Error(
      Code::InvalidArgument,
      fmt::format("--quant: unknown value '{}'; expected one of default, fp16, int8, int4", quant));
}

Slot make_inspect(CLI::App& root) {
  auto args = std::make_shared<InspectArguments>();
  auto reserved = std::make_shared<Reserved>();
  auto cache = std::make_shared<CacheTypes>();
  CLI::App* app =
      root.add_subcommand("inspect", "Estimate the memory a model needs, without loading it");
  app->add_option("-m,--model", args->model.model, kModelHelp)
      ->type_name("PATH_OR_REPO_ID")
      ->required();
  add_model_source(*app, args->model);
  app->add_option("-n,--max-tokens", args->max_tokens, "Context length")
      ->transform(decimal<int64_t>())
      ->capture_default_str();
  app->add_option("--batch", args->batch, "Sequences at a time")
      ->transform(decimal<int64_t>())
      ->capture_default_str();
  app->add_option("--quant", args->quant, "Weight mode to print: default, fp16, int8 or int4")
      ->capture_default_str();
  app->add_flag("--json", args->json, "Print one JSON object");
  cache->add(*app, true);
  reserved->add(*app, unavailable_inspect_flags());
  return {app, [=]() -> Command {
            reserved->refuse();
            cache->settle({"fp16", "int8"});
            args->cache_type_k = cache->k;
            args->cache_type_v = cache->v;
            args->quant = canonical_quant(args->quant);
            constexpr int64_t kLimit = int64_t{1} << 31;
            if (args->max_tokens < 1 || args->max_tokens > kLimit) {
              throw Error(Code::InvalidArgument, fmt::format("--max-tokens: {} is not in 1..{}",
                                                             args->max_tokens, kLimit));
            }
            if (args->batch < 1 || args->batch > 65536) {
              throw Error(Code::InvalidArgument,
                          fmt::format("--batch: {} is not in 1..65536", args->batch));
            }
            args->model.hub.quiet = args->json;
            return *args;
          }};
}

Slot make_list(CLI::App& root) {
  auto args = std::make_shared<ListArguments>();
  CLI::App* app = root.add_subcommand("list", "List the models in the store")->alias("ls");
  app->add_option("--models-dir", args->models_dir, "Model store root")->type_name("PATH");
  CLI::Option* json = app->add_flag("--json", args->json, "Print a JSON array");
  CLI::Option* quiet = app->add_flag("-q,--quiet", args->quiet, "Print repository ids only");
  CLI::Option* verbose = app->add_flag("-v,--verbose", args->verbose, "Print paths, too");
  json->excludes(quiet)->excludes(verbose);
  quiet->excludes(verbose);
  app->add_option("--sort", args->sort, "Order: name, size or modified")
      ->capture_default_str()
      ->check(CLI::IsMember({"name", "size", "modified"}));
  return {app, [=]() -> Command { return *args; }};
}

Slot make_remove(CLI::App& root) {
  auto args = std::make_shared<RemoveArguments>();
  CLI::App* app = root.add_subcommand("rm", "Remove a model from the store");
  app->add_option("REPO_ID", args->repo_id, "owner/name")->required();
  add_hub_options(*app, args->hub);
  app->add_flag("-y,--yes", args->yes, "Do not ask");
  return {app, [=]() -> Command { return *args; }};
}

Slot make_download(CLI::App& root) {
  auto args = std::make_shared<DownloadArguments>();
  CLI::App* app = root.add_subcommand("download", "Download a model from the hub");
  app->add_option("REPO_ID", args->repo_id, "owner/name")->required();
  app->add_option("--local-dir", args->hub.local_dir, "Write the snapshot exactly here")
      ->type_name("PATH");
  add_hub_options(*app, args->hub);
  app->add_option("--hf-file", args->hub.file, "Only this file of the repository")
      ->type_name("FILE");
  app->add_option("--token", args->hub.token, "Hub access token (default: HF_TOKEN)")
      ->type_name("TOKEN");
  app->add_flag("--force", args->hub.force, "Fetch again what is there already");
  return {app, [=]() -> Command { return *args; }};
}

Slot make_arch(CLI::App& root) {
  auto args = std::make_shared<ArchArguments>();
  CLI::App* app =
      root.add_subcommand("arch", "List the supported model architectures")->alias("supported");
  app->add_flag("--json", args->json, "Print one JSON object");
  return {app, [=]() -> Command { return *args; }};
}

void add_list(CLI::App& app, const char* names, std::vector<int64_t>& target, const char* help) {
  app.add_option(names, target, help)->delimiter(',')->capture_default_str()->type_name("N,...");
}

Slot make_bench(CLI::App& root) {
  auto args = std::make_shared<BenchArguments>();
  auto what = std::make_shared<std::string>();
  CLI::App* app = root.add_subcommand("bench", "Measure a model, or the kernels, on this machine");
  app->add_option("WHAT", *what,
                  "\"kernels\": every kernel with its time and error, without a model")
      ->check(CLI::IsMember({"kernels"}));
  app->add_option("-m,--model", args->model.model, kModelHelp)->type_name("PATH_OR_REPO_ID");
  add_model_source(*app, args->model);
  add_list(*app, "-p,--n-prompt", args->prompt_tokens, "Prompt tokens to read; 0 = no such test");
  add_list(*app, "-n,--n-gen", args->generated_tokens, "Tokens to generate; 0 = no such test");
  add_list(*app, "-d,--n-depth", args->depth, "Tokens that lie before them");
  add_list(*app, "-b,--batch", args->batch, "Sequences at once");
  add_list(*app, "-t,--threads", args->threads, "Threads; 0 = as the other commands");
  app->add_option("-r,--repetitions", args->repetitions, "Runs of each test")
      ->capture_default_str()
      ->transform(decimal<int64_t>());
  app->add_flag("--json", args->json, "Print one JSON object");
  return {app, [=]() -> Command {
            args->kernels = !what->empty();
            if (args->kernels != args->model.model.empty()) {
              throw Error(Code::InvalidArgument, "give either a model with -m, or \"kernels\"");
            }
            const auto check = [](const char* flag, const std::vector<int64_t>& values, int64_t low,
                                  int64_t high) {
              for (const int64_t v : values) {
                if (v >= low && v <= high) continue;
                throw Error(Code::InvalidArgument,
                            fmt::format("{}: {} is not in {}..{}", flag, v, low, high));
              }
            };
            check("--n-prompt", args->prompt_tokens, 0, 1'000'000);
            check("--n-gen", args->generated_tokens, 0, 1'000'000);
            check("--n-depth", args->depth, 0, 1'000'000);
            check("--batch", args->batch, 1, 1024);
            check("--threads", args->threads, 0, 1024);
            check("--repetitions", {args->repetitions}, 1, 1000);
            args->model.hub.quiet = args->json;
            return *args;
          }};
}

Slot make_serve(CLI::App& root) {
  CLI::App* app = root.add_subcommand("serve", "Serve a model over HTTP");
  return {app, [read = add_serve_options(*app)]() -> Command { return read(); }};
}

void make_unavailable(CLI::App& root, std::vector<Slot>& slots) {
  for (const std::string_view name : unavailable_commands()) {
    CLI::App* app = root.add_subcommand(std::string(name))->group("")->prefix_command();
    app->set_help_flag();
    slots.push_back({app, [name]() -> Command {
                       throw Error(
                           Code::Unsupported,
                           fmt::format("the command '{}' is not available in this build", name));
                     }});
  }
}

ParsedCommandLine usage_error(const std::string& message) {
  return {.command = {},
          .exit_code = kUsageError,
          .out = {},
          .err = fmt::format("error: {}\nTry 'mlxcel --help', or '--help' after the command.\n",
                             message)};
}

}  // namespace

ParsedCommandLine parse_command_line(const std::vector<std::string>& arguments) {
  CLI::App root("Runs language models on this machine.", "mlxcel");
  root.require_subcommand(0, 1);
  bool version = false;
  root.add_flag("-V,--version", version, "Print what this program was built from");
  std::vector<Slot> slots = {make_generate<RunArguments>(root, true),
                             make_generate<GenerateArguments>(root, false),
                             make_inspect(root),
                             make_list(root),
                             make_remove(root),
                             make_download(root),
                             make_arch(root),
                             make_serve(root),
                             make_bench(root)};
  make_unavailable(root, slots);
  try {
    const bool serving = !arguments.empty() && arguments.front() == "serve";
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    if (serving) std::ranges::transform(reversed, reversed.begin(), canonical_flag);
    root.parse(std::move(reversed));
    if (version) return {.command = VersionArguments{}, .exit_code = 0, .out = {}, .err = {}};
    for (const Slot& slot : slots) {
      if (slot.app->parsed()) {
        return {.command = slot.finish(), .exit_code = 0, .out = {}, .err = {}};
      }
    }
    return {.command = {},
            .exit_code = arguments.empty() ? kUsageError : 0,
            .out = {},
            .err = root.help()};
  } catch (const CLI::CallForHelp&) {
    return {.command = {}, .exit_code = 0, .out = root.help(), .err = {}};
  } catch (const CLI::ParseError& e) {
    return usage_error(e.what());
  } catch (const Error& e) {
    return usage_error(e.message());
  }
}

}  // namespace mlxcel::apps

// The command line of `mlxcel` as plain data: what each command was asked to do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/grammar_flags.h"
#include "apps/model_arguments.h"
#include "apps/serve_arguments.h"

namespace mlxcel::apps {

struct GenerateArguments {
  ModelArguments model;
  std::optional<std::string> prompt;  // unset: the interactive chat
  int32_t max_tokens = -1;            // -1 = until the end or a full context
  SamplingFlags sampling;
  GrammarFlags grammar;
  std::vector<std::string> stop;
  bool no_chat_template = false;
  bool show_reasoning = false;
  bool profile = false;
  bool estimate_memory = false;
  bool force = false;  // go on although the estimate does not fit
};

struct RunArguments : GenerateArguments {};

struct InspectArguments {
  ModelArguments model;
  int64_t max_tokens = 8192;
  int64_t batch = 1;
  std::string quant = "default";  // default, fp16, int8 or int4
  std::string cache_type_k = "fp16", cache_type_v = "fp16";
  bool json = false;
};

struct ListArguments {
  std::string models_dir;
  bool json = false, quiet = false, verbose = false;
  std::string sort = "name";  // name, size or modified
};

struct RemoveArguments {
  std::string repo_id;
  io::HubOptions hub;
  bool yes = false;
};

struct DownloadArguments {
  std::string repo_id;
  io::HubOptions hub;
};

struct ArchArguments {
  bool json = false;
};

struct VersionArguments {};

struct BenchArguments {
  ModelArguments model;
  bool kernels = false;  // the kernels of this machine instead of a model
  std::vector<int64_t> prompt_tokens = {512}, generated_tokens = {128};  // 0 = no such test
  std::vector<int64_t> depth = {0}, batch = {1};
  std::vector<int64_t> threads = {0};  // 0 = those of the other commands
  int64_t repetitions = 5;
  bool json = false;
};

using Command = std::variant<GenerateArguments, RunArguments, InspectArguments, ListArguments,
                             RemoveArguments, DownloadArguments, ArchArguments, VersionArguments,
                             ServeArguments, BenchArguments>;

/// Either a command, or text to print and an exit code (help: 0, usage errors: 2).
struct ParsedCommandLine {
  std::optional<Command> command;
  int exit_code = 0;
  std::string out, err;
};

/// Reads the arguments after the program's name. Never throws for what a user can type.
ParsedCommandLine parse_command_line(const std::vector<std::string>& arguments);

/// The same for the program `mlxcel-server`, whose arguments are those of `mlxcel serve`.
ParsedCommandLine parse_server_command_line(const std::vector<std::string>& arguments);

}  // namespace mlxcel::apps

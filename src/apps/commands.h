// The commands of `mlxcel`. Each prints its answer to stdout, notes to stderr, returns the exit
// code and throws Error for what ends it.
#pragma once

#include "apps/command_line.h"

namespace mlxcel::apps {

/// Parses and runs one command line (without the program's name). Prints "error: ..." and returns
/// 1 for an Error, 2 for a usage error. backend::register_all() must have been called.
int run_program(const std::vector<std::string>& arguments);

int generate(const GenerateArguments& arguments);
int run(const RunArguments& arguments);
int inspect(const InspectArguments& arguments);
int list_models(const ListArguments& arguments);
int remove_model(const RemoveArguments& arguments);
int download(const DownloadArguments& arguments);
int print_architectures(const ArchArguments& arguments);
int print_version(const VersionArguments& arguments);
int serve(const ServeArguments& arguments);
int bench(const BenchArguments& arguments);
/// The part of bench that needs no model.
int bench_kernels(const BenchArguments& arguments);

/// The same for `mlxcel-server`: the arguments of serve, or "download ...".
int run_server_program(const std::vector<std::string>& arguments);

}  // namespace mlxcel::apps

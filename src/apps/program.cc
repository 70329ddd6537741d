#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <new>

#include "apps/commands.h"
#include "base/error.h"

namespace mlxcel::apps {
namespace {

struct Dispatch {
  int operator()(const GenerateArguments& a) const { return generate(a); }
  int operator()(const RunArguments& a) const { return run(a); }
  int operator()(const InspectArguments& a) const { return inspect(a); }
  int operator()(const ListArguments& a) const { return list_models(a); }
  int operator()(const RemoveArguments& a) const { return remove_model(a); }
  int operator()(const DownloadArguments& a) const { return download(a); }
  int operator()(const ArchArguments& a) const { return print_architectures(a); }
  int operator()(const VersionArguments& a) const { return print_version(a); }
};

int failed(const char* message) {
  std::fflush(stdout);
  fmt::print(stderr, "error: {}\n", message);
  return 1;
}

}  // namespace

int run_program(const std::vector<std::string>& arguments) {
  try {
    const ParsedCommandLine parsed = parse_command_line(arguments);
    std::fputs(parsed.out.c_str(), stdout);
    std::fputs(parsed.err.c_str(), stderr);
    const int code = parsed.command ? std::visit(Dispatch{}, *parsed.command) : parsed.exit_code;
    if (std::fflush(stdout) != 0) return failed("cannot write to standard output");
    return code;
  } catch (const std::bad_alloc&) {
    return failed("out of memory");
  } catch (const std::exception& e) {
    return failed(e.what());
  }
}

}  // namespace mlxcel::apps

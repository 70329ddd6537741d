#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

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
  int operator()(const ServeArguments& a) const { return serve(a); }
  int operator()(const BenchArguments& a) const { return bench(a); }
};

/// Gives every standard descriptor that the caller closed a stand-in, so that no file opened later
/// takes its number and receives or lends text. Reading finds the end of input and messages go
/// nowhere; writing to standard output still fails, because its stand-in is open for reading only.
void replace_closed_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) != -1) continue;
    // The lowest free number is the one that is missing, as those below it are open.
    ::open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

/// Standard error may be full or closed, too, so nothing here throws. A message can quote a
/// checkpoint, whose control characters must not reach the terminal.
int failed(const char* message) noexcept {
  std::fflush(stdout);
  std::fputs("error: ", stderr);
  for (const char* c = message; *c != '\0'; ++c) {
    const auto byte = static_cast<unsigned char>(*c);
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
      std::fprintf(stderr, "\\x%02x", static_cast<unsigned>(byte));
    } else {
      std::fputc(byte, stderr);
    }
  }
  std::fputc('\n', stderr);
  return 1;
}

using Parser = ParsedCommandLine (*)(const std::vector<std::string>&);

int run_parsed(Parser parse, const std::vector<std::string>& arguments) {
  replace_closed_streams();
  try {
    const ParsedCommandLine parsed = parse(arguments);
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

}  // namespace

int run_program(const std::vector<std::string>& arguments) {
  return run_parsed(parse_command_line, arguments);
}

int run_server_program(const std::vector<std::string>& arguments) {
  const bool download = !arguments.empty() && arguments.front() == "download";
  return run_parsed(download ? parse_command_line : parse_server_command_line, arguments);
}

}  // namespace mlxcel::apps

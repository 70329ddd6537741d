// Runs the project's own programs: with pipes, or on a pseudo-terminal as a person would.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace mlxcel::testing {

struct ProcessResult {
  int exit_code = -1;  // 128 + signal when a signal ended it
  std::string out, err;
};

struct ProcessOptions {
  std::string input;                       // standard input
  std::map<std::string, std::string> env;  // set on top of this process's environment
  std::string directory;                   // working directory; empty = this one
  int timeout_ms = 60'000;                 // then it is killed
};

/// The program `name` of this build (MLXCEL_TEST_BIN); empty when the variable is not set.
std::string program_path(const std::string& name);

ProcessResult run_process(const std::string& program, const std::vector<std::string>& arguments,
                          const ProcessOptions& options = {});

/// A program on a terminal of its own: what it prints is collected, keys can be sent.
class Terminal {
 public:
  Terminal(const std::string& program, const std::vector<std::string>& arguments,
           const std::map<std::string, std::string>& env = {});
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys);
  /// Waits until `text` was printed after what earlier waits have consumed; false after the limit.
  bool wait_for(const std::string& text, int timeout_ms = 30'000);
  /// Waits for the end; the exit code as in ProcessResult, -1 after the limit.
  int wait_exit(int timeout_ms = 30'000);
  const std::string& screen() const { return screen_; }  // everything printed so far

 private:
  bool read_some(int timeout_ms);
  int master_ = -1;
  pid_t child_ = -1;
  std::string screen_;
  size_t consumed_ = 0;
};

}  // namespace mlxcel::testing

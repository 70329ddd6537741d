#include "testing/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace mlxcel::testing {
namespace {

using Clock = std::chrono::steady_clock;

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// The child's side: environment, directory, program. Does not return.
[[noreturn]] void execute(const std::string& program, const std::vector<std::string>& arguments,
                          const std::map<std::string, std::string>& env,
                          const std::string& directory) {
  for (const auto& [name, value] : env) ::setenv(name.c_str(), value.c_str(), 1);
  if (!directory.empty() && ::chdir(directory.c_str()) != 0) ::_exit(126);
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  ::_exit(127);
}

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    read_end = fds[0];
    write_end = fds[1];
  }
};

int remaining_ms(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  return static_cast<int>(std::max<int64_t>(0, left.count()));
}

}  // namespace

std::string program_path(const std::string& name) {
  const char* bin = std::getenv("MLXCEL_TEST_BIN");
  return bin == nullptr ? std::string() : std::string(bin) + "/" + name;
}

ProcessResult run_process(const std::string& program, const std::vector<std::string>& arguments,
                          const ProcessOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);
  Pipe in, out, err;
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGPIPE, SIG_DFL);
    ::dup2(in.read_end, 0);
    ::dup2(out.write_end, 1);
    ::dup2(err.write_end, 2);
    execute(program, arguments, options.env, options.directory);
  }
  ::close(in.read_end);
  ::close(out.write_end);
  ::close(err.write_end);
  ::fcntl(in.write_end, F_SETFL, O_NONBLOCK);
  ProcessResult result;
  const auto end = Clock::now() + std::chrono::milliseconds(options.timeout_ms);
  size_t sent = 0;
  pollfd fds[3] = {
      {out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}, {in.write_end, POLLOUT, 0}};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (fds[2].fd >= 0 && sent == options.input.size()) {
      ::close(fds[2].fd);
      fds[2].fd = -1;
    }
    if (::poll(fds, 3, remaining_ms(end)) <= 0) {
      ::kill(child, SIGKILL);
      break;
    }
    if ((fds[2].revents & (POLLOUT | POLLERR)) != 0) {
      const ssize_t n =
          ::write(fds[2].fd, options.input.data() + sent, options.input.size() - sent);
      sent = n > 0 ? sent + static_cast<size_t>(n) : options.input.size();
    }
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      char block[65536];
      const ssize_t n = ::read(fds[i].fd, block, sizeof block);
      if (n > 0) (i == 0 ? result.out : result.err).append(block, static_cast<size_t>(n));
      if (n <= 0) {
        ::close(fds[i].fd);
        fds[i].fd = -1;
      }
    }
  }
  for (pollfd& fd : fds) {
    if (fd.fd >= 0) ::close(fd.fd);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  result.exit_code = exit_code_of(status);
  return result;
}

Terminal::Terminal(const std::string& program, const std::vector<std::string>& arguments,
                   const std::map<std::string, std::string>& env) {
  winsize size{};
  size.ws_row = 50;
  size.ws_col = 200;
  child_ = ::forkpty(&master_, nullptr, nullptr, &size);
  if (child_ < 0) throw std::runtime_error("forkpty");
  if (child_ == 0) {
    ::setenv("TERM", "xterm", 1);
    execute(program, arguments, env, {});
  }
}

Terminal::~Terminal() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  if (master_ >= 0) ::close(master_);
}

void Terminal::type(const std::string& keys) {
  if (::write(master_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) {
    throw std::runtime_error("the terminal takes no keys");
  }
}

bool Terminal::read_some(int timeout_ms) {
  pollfd fd{master_, POLLIN, 0};
  if (::poll(&fd, 1, timeout_ms) <= 0) return false;
  char block[4096];
  const ssize_t n = ::read(master_, block, sizeof block);
  if (n <= 0) return false;
  screen_.append(block, static_cast<size_t>(n));
  return true;
}

bool Terminal::wait_for(const std::string& text, int timeout_ms) {
  const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (true) {
    if (const size_t at = screen_.find(text, consumed_); at != std::string::npos) {
      consumed_ = at + text.size();
      return true;
    }
    if (!read_some(remaining_ms(end))) return false;
  }
}

int Terminal::wait_exit(int timeout_ms) {
  const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  int status = 0;
  while (remaining_ms(end) > 0) {
    read_some(20);
    if (::waitpid(child_, &status, WNOHANG) == child_) {
      child_ = -1;
      while (read_some(50)) {
      }
      return exit_code_of(status);
    }
  }
  return -1;
}

}  // namespace mlxcel::testing

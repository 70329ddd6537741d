#include "apps/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace mlxcel::apps {
namespace {

volatile std::sig_atomic_t pending = 0;
struct sigaction before;

void on_interrupt(int) {
  if (pending != 0) {
    constexpr char kReset[] = "\x1b[0m\n";
    if (::isatty(STDOUT_FILENO) == 1) (void)!::write(STDOUT_FILENO, kReset, sizeof kReset - 1);
    ::_exit(130);
  }
  pending = 1;
}

}  // namespace

InterruptScope::InterruptScope() {
  pending = 0;
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: a read at the prompt must return
  ::sigaction(SIGINT, &action, &before);
}

InterruptScope::~InterruptScope() { ::sigaction(SIGINT, &before, nullptr); }

bool interrupt_pending() { return pending != 0; }

bool take_interrupt() {
  const bool was = pending != 0;
  pending = 0;
  return was;
}

}  // namespace mlxcel::apps

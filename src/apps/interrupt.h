// Ctrl-C as something that loops can ask about.
#pragma once

namespace mlxcel::apps {

/// While one lives, SIGINT is counted instead of ending the program; a second one while the first
/// has not been taken exits with 130 at once. Not nested.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

/// True when SIGINT came since the last take_interrupt().
bool interrupt_pending();
/// Same, and forgets it.
bool take_interrupt();

}  // namespace mlxcel::apps

// Lines from a person: libedit with history on a terminal, plain lines otherwise.
#pragma once

#include <memory>
#include <string>

namespace mlxcel::apps {

class LineEditor {
 public:
  enum class Status { Line, End, Interrupted };
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  bool interactive() const;  // a terminal on both sides
  /// Reads one line without its end into `line`. The prompt is shown on a terminal only. Ctrl-C (an
  /// InterruptScope must be alive) gives Interrupted and drops what was typed.
  Status read(const std::string& prompt, std::string& line);
  /// Puts an entry into the history of this run.
  void remember(const std::string& entry);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mlxcel::apps

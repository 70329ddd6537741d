#include "apps/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>

#include "apps/interrupt.h"
#include "base/error.h"
#include "base/utf8.h"

namespace mlxcel::apps {
namespace {

constexpr int kHistoryEntries = 1000;
constexpr size_t kMaxLine = size_t{4} << 20;

/// How long an interrupt that another thread took, or that came just before the wait, may stay
/// unseen.
constexpr int kInterruptPollMs = 50;

/// One byte of standard input: 1, 0 at the end, -1 with errno when Ctrl-C or an error came between.
int read_byte(char& byte) {
  while (true) {
    if (interrupt_pending()) {
      errno = EINTR;
      return -1;
    }
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&input, 1, kInterruptPollMs);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
    if (n >= 0) return static_cast<int>(n);
    if (errno != EINTR) return -1;
  }
}

/// One character for libedit. Its own reader retries after a signal; this one gives up, so that
/// Ctrl-C ends the line.
int read_character(EditLine*, wchar_t* out) {
  std::string bytes;
  while (true) {
    char byte = 0;
    const int n = read_byte(byte);
    if (n <= 0) return n;
    bytes += byte;
    if (utf8::complete_prefix(bytes) != bytes.size() && bytes.size() < 4) continue;
    *out = static_cast<wchar_t>(utf8::decode(bytes).code_point);
    return 1;
  }
}

/// A locale whose characters are UTF-8, which libedit converts through.
void use_utf8_locale() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(::nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

struct LineEditor::Impl {
  bool interactive = false;
  EditLine* editor = nullptr;
  ::History* history = nullptr;
  HistEvent event{};
  std::string prompt;

  static char* show_prompt(EditLine* editor) {
    Impl* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return self->prompt.data();
  }
};

LineEditor::LineEditor() : impl_(std::make_unique<Impl>()) {
  impl_->interactive = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  if (!impl_->interactive) return;
  use_utf8_locale();
  impl_->history = history_init();
  impl_->editor = el_init("mlxcel", stdin, stdout, stderr);
  if (impl_->history == nullptr || impl_->editor == nullptr) {
    throw Error(Code::Internal, "the terminal cannot be set up for line editing");
  }
  history(impl_->history, &impl_->event, H_SETSIZE, kHistoryEntries);
  history(impl_->history, &impl_->event, H_SETUNIQUE, 1);
  el_set(impl_->editor, EL_CLIENTDATA, impl_.get());
  el_set(impl_->editor, EL_PROMPT, &Impl::show_prompt);
  el_set(impl_->editor, EL_EDITOR, "emacs");
  el_set(impl_->editor, EL_SIGNAL, 0);
  el_set(impl_->editor, EL_HIST, history, impl_->history);
  el_set(impl_->editor, EL_GETCFN, &read_character);
  el_set(impl_->editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
}

LineEditor::~LineEditor() {
  if (impl_->editor != nullptr) el_end(impl_->editor);
  if (impl_->history != nullptr) history_end(impl_->history);
}

bool LineEditor::interactive() const { return impl_->interactive; }

LineEditor::Status LineEditor::read(const std::string& prompt, std::string& line) {
  line.clear();
  if (impl_->interactive) {
    impl_->prompt = prompt;
    int count = 0;
    const char* text = el_gets(impl_->editor, &count);
    if (take_interrupt()) {
      el_reset(impl_->editor);
      return Status::Interrupted;
    }
    if (text == nullptr || count <= 0) return Status::End;
    line.assign(text, static_cast<size_t>(count));
  } else {
    char byte = 0;
    int n = 0;
    while ((n = read_byte(byte)) == 1 && byte != '\n') {
      if (line.size() >= kMaxLine)
        throw Error(Code::ResourceExhausted, "an input line is too long");
      line += byte;
    }
    if (take_interrupt()) return Status::Interrupted;
    if (n != 1 && line.empty()) return Status::End;
  }
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  return Status::Line;
}

void LineEditor::remember(const std::string& entry) {
  if (impl_->history != nullptr && !entry.empty()) {
    history(impl_->history, &impl_->event, H_ENTER, entry.c_str());
  }
}

}  // namespace mlxcel::apps

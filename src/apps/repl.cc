// The interactive chat.
#include <fmt/core.h>

#include <cstdio>
#include <optional>

#include "apps/interrupt.h"
#include "apps/line_editor.h"
#include "apps/session.h"
#include "base/error.h"

namespace mlxcel::apps {
namespace {

constexpr std::string_view kFence = "\"\"\"";

void print_help() {
  fmt::print(
      "Commands:\n"
      "  /bye           leave the chat\n"
      "  /clear         start a new conversation\n"
      "  /image <path>  attach an image to the next message (vision models)\n"
      "  /?, /help      show this list\n"
      "  \"\"\"            begin and end a message of several lines\n"
      "  Ctrl-C         stop the answer; at the prompt: drop the line\n");
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

class Chat {
 public:
  Chat(Session& session, bool raw)
      : session_(session), style_(raw ? PromptStyle::Raw : PromptStyle::Chat) {}

  int loop() {
    fmt::print("mlxcel interactive chat with {}\n", session_.model().name);
    print_help();
    if (!editor_.interactive()) {
      fmt::print(stderr, "note: standard input is no terminal; every line is one message.\n");
    }
    const InterruptScope interruptible;
    while (!done_) {
      std::fflush(stdout);
      const std::optional<std::string> message = read_message();
      if (message) handle(*message);
    }
    fmt::print("Bye!\n");
    return failed_ && !editor_.interactive() ? 1 : 0;
  }

 private:
  /// A line or a fenced block; nothing when it was cancelled. Sets done_ at the end of the input.
  std::optional<std::string> read_message() {
    std::string line;
    if (!read_line(">>> ", line)) return std::nullopt;
    const std::string_view start = trim(line);
    if (!start.starts_with(kFence)) {
      editor_.remember(line);
      return line;
    }
    std::string text(start.substr(kFence.size()));
    bool first = true;
    while (true) {
      if (const size_t end = text.find(kFence); end != std::string::npos) {
        text.resize(end);
        if (text.ends_with('\n')) text.pop_back();
        return text;
      }
      if (!read_line("... ", line)) return std::nullopt;
      // Text on the opening line is the first line; an opening line alone is none.
      if (!first || !text.empty()) text += '\n';
      first = false;
      text += line;
    }
  }

  bool read_line(const char* prompt, std::string& line) {
    switch (editor_.read(prompt, line)) {
      case LineEditor::Status::Line:
        return true;
      case LineEditor::Status::Interrupted:
        fmt::print("\n(^C — type /bye to exit)\n");
        return false;
      case LineEditor::Status::End:
        if (editor_.interactive()) fmt::print("\n");
        done_ = true;
        return false;
    }
    return false;
  }

  void handle(const std::string& message) {
    const std::string_view text = trim(message);
    if (text.empty()) return;
    if (!text.starts_with('/') || message.find('\n') != std::string::npos) return say(message);
    if (text == "/bye" || text == "/exit") {
      done_ = true;
    } else if (text == "/clear") {
      messages_ = Json::array();
      ++conversation_;
      fmt::print("A new conversation starts.\n");
    } else if (text == "/?" || text == "/help") {
      print_help();
    } else if (text == "/image" || text.starts_with("/image ")) {
      fmt::print(stderr, "{}\n",
                 style_ == PromptStyle::Raw ? "/image cannot be used with --no-chat-template."
                                            : "/image is not available in this build.");
    } else {
      fmt::print(stderr, "Unknown command '{}'; /? lists the commands.\n",
                 text.substr(0, text.find(' ')));
    }
  }

  void say(const std::string& text) {
    Json messages = style_ == PromptStyle::Raw ? Json::array() : messages_;
    messages.push_back(user_message(text).as_array()[0]);
    try {
      const PreparedPrompt prompt = session_.prepare(messages, style_);
      const engine::SamplingParams sampling = session_.chat_sampling();
      const TurnResult result = session_.turn(
          session_.request(prompt, sampling, fmt::format("chat-{}", conversation_)), prompt);
      take_interrupt();
      if (result.interrupted) {
        fmt::print("\n[interrupted]\n");
        return;
      }
      fmt::print("\n\n");
      messages.push_back(Json::object({{"role", "assistant"}, {"content", result.content}}));
      messages_ = std::move(messages);
    } catch (const Error& e) {
      std::fflush(stdout);
      fmt::print(stderr, "error: {}\n", e.message());
      if (messages_.size() > 0 && e.message().find("leaves no room") != std::string_view::npos) {
        fmt::print(stderr, "The conversation so far fills the context; /clear starts a new one.\n");
      }
      failed_ = true;
    }
  }

  Session& session_;
  PromptStyle style_;
  LineEditor editor_;
  Json messages_ = Json::array();
  int conversation_ = 1;
  bool done_ = false;
  bool failed_ = false;  // some message had no answer; scripts see it in the exit code
};

}  // namespace

int chat(Session& session, const GenerateArguments& arguments) {
  session.check_memory(0);
  if (!session.has_template() && !arguments.no_chat_template) {
    print_base_model_note(session.model().name);
  }
  session.start(/*prefix_cache=*/true);
  return Chat(session, arguments.no_chat_template).loop();
}

}  // namespace mlxcel::apps

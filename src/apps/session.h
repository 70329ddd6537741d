// A loaded model with its engine, and requests made for it: what generate, run and the interactive
// chat share.
#pragma once

#include <memory>
#include <string>

#include "apps/command_line.h"
#include "apps/load_model.h"
#include "apps/turn.h"
#include "engine/engine.h"

namespace mlxcel::apps {

/// A prompt ready for the engine.
struct PreparedPrompt {
  serve::RenderedPrompt rendered;
  bool raw = false;      // given to the model as it was typed
  bool generic = false;  // rendered in the generic format
  double seconds = 0;    // rendering and tokenizing
};

/// How prompts become token ids in one front end.
enum class PromptStyle : uint8_t {
  Completion,  // generate: a checkpoint without template gets the text as it is
  Chat,        // run: a checkpoint without template gets the generic format
  Raw,         // --no-chat-template
};

class Session {
 public:
  /// Resolves the model and reads everything but its weights. Prints the device and the model's
  /// path to stderr.
  explicit Session(const GenerateArguments& arguments);

  /// Renders and tokenizes. Throws InvalidArgument for text that is not UTF-8, for an empty prompt
  /// (in Raw style only when not even a BOS token comes of it) and for messages that the template
  /// refuses.
  PreparedPrompt prepare(const Json& messages, PromptStyle style) const;

  /// With --estimate-memory: prints the estimate for this prompt to stderr and throws
  /// ResourceExhausted when it does not fit and --force is absent.
  void check_memory(int64_t prompt_tokens) const;

  /// Loads the weights and starts the engine for one sequence at a time.
  void start(bool prefix_cache);

  engine::Request request(const PreparedPrompt& prompt, const engine::SamplingParams& sampling,
                          std::string cache_scope) const;
  TurnResult turn(engine::Request request, const PreparedPrompt& prompt);

  /// Server defaults, generation_config.json over them, flags over both; greedy when neither gives
  /// a temperature (engine.md 7.8).
  engine::SamplingParams chat_sampling() const;
  /// The plain defaults of generate with its flags.
  engine::SamplingParams completion_sampling() const;

  const LoadedChatModel& model() const { return model_; }
  bool has_template() const { return !model_.chat.template_source.empty(); }

 private:
  GenerateArguments arguments_;
  Device device_{};
  LoadedChatModel model_;
  std::shared_ptr<const text::Grammar> grammar_;  // shared with running requests
  std::unique_ptr<engine::Engine> engine_;
};

/// One user message as the list that prepare() takes.
Json user_message(const std::string& text);

/// Says on stderr that a checkpoint without template is likely a base model.
void print_base_model_note(const std::string& name);

/// The interactive chat on a session whose weights are not loaded yet; returns the exit code.
int chat(Session& session, const GenerateArguments& arguments);

}  // namespace mlxcel::apps

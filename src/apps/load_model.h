// From a name on the command line to everything that generating needs: weights, tokenizer, chat
// format, defaults. Shared by all commands.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/command_line.h"
#include "engine/sampler.h"
#include "io/checkpoint.h"
#include "io/hub.h"
#include "nn/causal_lm.h"
#include "serve/chat_session.h"
#include "text/tokenizer.h"

namespace mlxcel::apps {

/// What generation_config.json says about sampling; unset = it says nothing.
struct GenerationDefaults {
  std::optional<float> temperature, top_p, min_p, repetition_penalty, typical_p;
  std::optional<int32_t> top_k;
  /// `base` with these values put over it. A configuration with "do_sample": false has none.
  engine::SamplingParams over(engine::SamplingParams base) const;
};

struct LoadedChatModel {
  std::string name;  // as the user gave it
  io::Resolved location;
  io::Checkpoint checkpoint;
  std::shared_ptr<const nn::CausalLm> lm;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  serve::ChatFormat chat;  // template_source is empty when the checkpoint has no template
  GenerationDefaults defaults;
  std::vector<text::TokenId> eos_ids;
  double load_seconds = 0;
};

/// Tokenizer, chat format, defaults and end-of-text ids of an opened checkpoint; `lm` stays null.
LoadedChatModel load_without_weights(const std::string& name, io::Resolved location);

/// Loads the weights into a result of load_without_weights, on `device`.
void load_weights(LoadedChatModel& model, Device device);

/// Reads MLXCEL_DEVICE (gpu, metal, cpu), prints "Runtime device: ..." to stderr and returns the
/// device. gpu, the default, means the CPU where no GPU can be used; a line says why when the
/// variable asks for gpu. Throws Unsupported for metal, InvalidArgument for anything else.
Device choose_device();

/// Refuses what the environment asks for and this build cannot do (MLXCEL_SURGERY).
void check_environment();

/// Sampling defaults of generation_config.json.
GenerationDefaults read_generation_defaults(const io::Config& config);

/// Fills a vocabulary from the tokenizer.ggml.* keys of a GGUF file. Throws Corrupt for values of
/// another type or lists of different lengths.
text::GgufVocab read_gguf_vocab(const io::GgufFile& file);

}  // namespace mlxcel::apps

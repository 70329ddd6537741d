#include "apps/load_model.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <fmt/core.h>

#include <chrono>
#include <cstdio>

#include "apps/chat_format.h"
#include "backend/register.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "io/gguf.h"
#include "models/family.h"
#include "ops/ops.h"
#include "tensor/device.h"

namespace mlxcel::apps {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string_view> string_list(const io::GgufFile& file, std::string_view key) {
  const io::GgufFile::Strings* strings = file.strings(key);
  return strings == nullptr ? std::vector<std::string_view>() : *strings;
}

std::optional<bool> optional_flag(const io::GgufFile& file, std::string_view key) {
  if (file.find(key) == nullptr) return std::nullopt;
  return file.flag_or(key, false);
}

/// Bytes under a key: GGUF writers store the charsmap as a list of small integers.
std::string byte_list(const io::GgufFile& file, std::string_view key) {
  const io::GgufFile::Value* value = file.find(key);
  if (value == nullptr) return {};
  const auto* numbers = std::get_if<io::GgufNumbers>(value);
  using Type = io::GgufNumbers::Type;
  if (numbers == nullptr || (numbers->type != Type::U8 && numbers->type != Type::I8)) {
    throw Error(Code::Corrupt, fmt::format("{}: '{}' is no list of bytes", file.path(), key));
  }
  return {reinterpret_cast<const char*>(numbers->bytes.data()), numbers->bytes.size()};
}

std::shared_ptr<const text::Tokenizer> make_tokenizer(const io::Checkpoint& checkpoint) {
  Result<std::unique_ptr<text::Tokenizer>> tokenizer =
      checkpoint.gguf ? text::make_gguf_tokenizer(read_gguf_vocab(*checkpoint.gguf))
                      : text::load_tokenizer(checkpoint.path);
  if (!tokenizer.ok()) throw tokenizer.error().within("tokenizer");
  return std::move(tokenizer).value();
}

template <class T>
void read_number(const io::Config& config, const char* key, std::optional<T>& target) {
  const Json* value = config.json().find(key);
  if (value == nullptr || value->is_null()) return;
  target = static_cast<T>(config.f64(key));
}

}  // namespace

engine::SamplingParams GenerationDefaults::over(engine::SamplingParams p) const {
  if (temperature) p.temperature = *temperature;
  if (top_k) p.top_k = *top_k;
  if (top_p) p.top_p = *top_p;
  if (min_p) p.min_p = *min_p;
  if (typical_p) p.typical_p = *typical_p;
  if (repetition_penalty) p.repetition_penalty = *repetition_penalty;
  return p;
}

GenerationDefaults read_generation_defaults(const io::Config& config) {
  GenerationDefaults d;
  if (!config.flag_or("do_sample", true)) return d;
  read_number(config, "temperature", d.temperature);
  read_number(config, "top_k", d.top_k);
  read_number(config, "top_p", d.top_p);
  read_number(config, "min_p", d.min_p);
  read_number(config, "typical_p", d.typical_p);
  read_number(config, "repetition_penalty", d.repetition_penalty);
  return d;
}

text::GgufVocab read_gguf_vocab(const io::GgufFile& file) {
  text::GgufVocab vocab;
  vocab.model = file.str_or("tokenizer.ggml.model", "");
  if (vocab.model.empty()) {
    throw Error(Code::NotFound,
                fmt::format("{} has no tokenizer (tokenizer.ggml.model)", file.path()));
  }
  vocab.pre = file.str_or("tokenizer.ggml.pre", "");
  vocab.tokens = string_list(file, "tokenizer.ggml.tokens");
  vocab.merges = string_list(file, "tokenizer.ggml.merges");
  vocab.scores = file.f32s("tokenizer.ggml.scores");
  vocab.token_types = file.i32s("tokenizer.ggml.token_type");
  const auto check_length = [&](size_t length, const char* key) {
    if (length == 0 || length == vocab.tokens.size()) return;
    throw Error(Code::Corrupt, fmt::format("{}: tokenizer.ggml.{} has {} entries for {} tokens",
                                           file.path(), key, length, vocab.tokens.size()));
  };
  check_length(vocab.scores.size(), "scores");
  check_length(vocab.token_types.size(), "token_type");
  const auto id = [&](const char* name) {
    return file.i64_or(fmt::format("tokenizer.ggml.{}_token_id", name), -1);
  };
  vocab.bos = id("bos");
  vocab.eos = id("eos");
  vocab.unk = id("unknown");
  vocab.sep = id("seperator");  // the key is spelled so in the format
  vocab.pad = id("padding");
  vocab.cls = id("cls");
  vocab.mask = id("mask");
  vocab.add_bos = optional_flag(file, "tokenizer.ggml.add_bos_token");
  vocab.add_eos = optional_flag(file, "tokenizer.ggml.add_eos_token");
  vocab.add_space_prefix = optional_flag(file, "tokenizer.ggml.add_space_prefix");
  vocab.remove_extra_whitespaces = optional_flag(file, "tokenizer.ggml.remove_extra_whitespaces");
  vocab.precompiled_charsmap = byte_list(file, "tokenizer.ggml.precompiled_charsmap");
  return vocab;
}

LoadedChatModel load_without_weights(const std::string& name, io::Resolved location) {
  LoadedChatModel model;
  model.name = name;
  model.location = std::move(location);
  model.checkpoint = io::open_checkpoint(model.location.path);
  // An unknown type is said before all else, spelled as the file has it.
  models::find_family(model.checkpoint.config.str("model_type"));
  model.tokenizer = make_tokenizer(model.checkpoint);
  model.chat = read_chat_format(model.checkpoint, *model.tokenizer);
  model.defaults = read_generation_defaults(model.checkpoint.generation_config);
  model.eos_ids = model.checkpoint.eos_token_ids();
  if (model.eos_ids.empty()) {
    if (const auto eos = model.tokenizer->eos_id()) model.eos_ids.push_back(*eos);
  }
  return model;
}

void load_weights(LoadedChatModel& model, Device device) {
  const auto start = Clock::now();
  // What loading read once must not stay resident: the mapped vocabulary, and the pages of the heap
  // that its temporaries left free.
  const auto drop_leftovers = [&] {
    if (model.checkpoint.gguf) {
      const auto& file = model.checkpoint.gguf->file();
      file->release(file->bytes());
    }
#ifdef __GLIBC__
    ::malloc_trim(0);
#endif
  };
  drop_leftovers();
  model.lm = models::load(model.checkpoint, models::device_for(model.checkpoint, device)).lm;
  drop_leftovers();
  model.load_seconds = std::chrono::duration<double>(Clock::now() - start).count();
}

Device choose_device() {
  const std::string device = env::get("MLXCEL_DEVICE").value_or("");
  if (device == "metal") {
    throw Error(Code::Unsupported,
                "MLXCEL_DEVICE=metal is not available in this build; use cpu or gpu (CUDA)");
  }
  if (!device.empty() && device != "gpu" && device != "cpu") {
    throw Error(
        Code::InvalidArgument,
        fmt::format("MLXCEL_DEVICE: unknown device '{}'; expected gpu, metal or cpu", device));
  }
  const DeviceRuntime* gpu = device == "cpu" ? nullptr : find_device(DeviceKind::Cuda);
  if (gpu != nullptr) {
    fmt::print(stderr, "Runtime device: gpu ({})\n", gpu->name());
    return {.kind = DeviceKind::Cuda, .index = 0};
  }
  if (device == "gpu") {
    fmt::print(stderr, "No GPU is usable ({}); running on the CPU.\n",
               backend::gpu_unavailable_reason());
  }
  fmt::print(stderr, "Runtime device: cpu ({})\n", ops::cpu_isa());
  return {};
}

void check_environment() {
  if (env::get("MLXCEL_SURGERY")) {
    throw Error(Code::Unsupported,
                "MLXCEL_SURGERY is set, and changing models at load time is "
                "not available in this build");
  }
  const std::string mode = env::get("MLXCEL_WEIGHT_MATERIALIZATION").value_or("eager");
  if (mode != "eager" && mode != "lazy") {
    throw Error(Code::InvalidArgument,
                fmt::format("MLXCEL_WEIGHT_MATERIALIZATION: unknown mode '{}'; expected eager or "
                            "lazy",
                            mode));
  }
  if (mode == "lazy") {
    log::warn("MLXCEL_WEIGHT_MATERIALIZATION=lazy has no effect: weights are packed while loading");
  }
}

}  // namespace mlxcel::apps

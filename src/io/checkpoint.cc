#include "io/checkpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "io/gguf.h"
#include "io/gguf_blocks.h"
#include "io/gguf_model.h"
#include "io/quoted_name.h"
#include "io/safetensors.h"
#include "io/shards.h"
#include "io/weights_root.h"

namespace mlxcel::io {
namespace {

namespace fs = std::filesystem;

Config load_optional(const std::string& path) {
  return file_exists(path) ? Config::load(path) : Config();
}

Checkpoint open_gguf(const std::string& path) {
  Checkpoint c;
  c.path = path;
  c.gguf = GgufFile::open(path);
  const std::string source = path + " (GGUF metadata)";
  c.config = Config::from_json(gguf_config(*c.gguf), source);
  c.tokenizer_config = Config::from_json(gguf_tokenizer_config(*c.gguf), source);
  return c;
}

Checkpoint open_directory(const std::string& path) {
  const WeightFiles files = find_weight_files(path);
  if (!files.gguf.empty()) return open_gguf(files.gguf);
  Checkpoint c;
  c.path = path;
  const std::string config = path + "/config.json";
  if (!file_exists(config)) {
    throw Error(Code::NotFound,
                fmt::format("{}: config.json is missing; this is not a model directory", path));
  }
  c.config = Config::load(config);
  c.generation_config = load_optional(path + "/generation_config.json");
  c.tokenizer_config = load_optional(path + "/tokenizer_config.json");
  for (const std::string& file : files.safetensors) {
    c.safetensors.push_back(SafetensorsFile::open(file));
  }
  return c;
}

void add_ids(std::vector<int32_t>& out, const std::vector<int64_t>& ids) {
  for (const int64_t id : ids) {
    // A negative id means "none" in published configs.
    if (id < 0 || id > INT32_MAX) continue;
    if (std::ranges::find(out, id) == out.end()) out.push_back(static_cast<int32_t>(id));
  }
}

// The text of a special token: a string, or an object with "content".
std::string token_text(const Json* token) {
  if (token == nullptr) return {};
  if (token->is_string()) return token->as_string();
  const Json* content = token->find("content");
  return content != nullptr && content->is_string() ? content->as_string() : std::string();
}

// The id that added_tokens_decoder gives eos_token.
std::vector<int64_t> tokenizer_eos(const Config& tokenizer) {
  const std::string eos = token_text(tokenizer.json().find("eos_token"));
  const Json* added = tokenizer.json().find("added_tokens_decoder");
  if (eos.empty() || added == nullptr || !added->is_object()) return {};
  for (const auto& [id, token] : added->as_object()) {
    if (token_text(&token) != eos) continue;
    const bool digits = !id.empty() && id.size() < 10 &&
                        std::ranges::all_of(id, [](char c) { return c >= '0' && c <= '9'; });
    if (digits) return {std::stoll(id)};
  }
  return {};
}

}  // namespace

Checkpoint open_checkpoint(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    throw Error(Code::NotFound, fmt::format("{} does not exist", path));
  }
  if (error) throw Error(Code::NotFound, fmt::format("cannot read {}: {}", path, error.message()));
  if (fs::is_directory(status)) return open_directory(path);
  if (!path.ends_with(".gguf")) {
    throw Error(Code::InvalidArgument,
                fmt::format("{} is neither a model directory nor a .gguf file", path));
  }
  return open_gguf(path);
}

std::string Checkpoint::model_type() const {
  std::string type = config.str("model_type");
  for (char& ch : type) ch = static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
  return type;
}

Weights Checkpoint::weights(std::span<const Rename> renames, ParallelGroup tp,
                            Device device) const {
  auto root = std::make_shared<Weights::Root>();
  root->source = path;
  root->tp = tp;
  root->device = device;
  const auto add = [&](std::string name, StoredTensor tensor) {
    if (const auto renamed_to = renamed(std::move(name), renames)) {
      root->add(*renamed_to, std::move(tensor));
    }
  };
  if (gguf != nullptr) {
    for (const GgufTensor& t : gguf->tensors()) {
      const GgufTensorName name = gguf_tensor_name(*gguf, config, t.name);
      const GgmlTraits* traits = ggml_traits(t.type);
      add(name.name, {.stored_name = t.name,
                      .dims = t.dims,
                      .data = t.data,
                      .file = t.file,
                      .dtype = traits->dtype,
                      .blocks = traits->quantized ? traits : nullptr,
                      .permute_heads = name.permute_heads});
    }
  } else {
    root->quantization = QuantConfig::from(config);
    for (const auto& file : safetensors) {
      for (const SafetensorsTensor& t : file->tensors()) {
        add(t.name, {.stored_name = t.name,
                     .dims = t.dims,
                     .data = t.data,
                     .file = file->file(),
                     .dtype = t.dtype});
      }
    }
  }
  if (root->tensors.empty()) {
    throw Error(Code::NotFound, fmt::format("{}: the checkpoint holds no tensors", path));
  }
  return Weights(std::move(root));
}

std::vector<int32_t> Checkpoint::eos_token_ids() const {
  std::vector<int32_t> out;
  constexpr std::string_view kKey = "eos_token_id";
  add_ids(out, generation_config.i64s(kKey));
  add_ids(out, config.i64s(kKey));
  if (config.has("text_config")) add_ids(out, config.at("text_config").i64s(kKey));
  add_ids(out, tokenizer_eos(tokenizer_config));
  return out;
}

int64_t Checkpoint::weight_bytes() const {
  if (gguf != nullptr) return gguf->tensor_bytes();
  int64_t sum = 0;
  for (const auto& file : safetensors) {
    for (const SafetensorsTensor& t : file->tensors()) sum += static_cast<int64_t>(t.data.size());
  }
  return sum;
}

}  // namespace mlxcel::io

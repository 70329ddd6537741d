// The table of families that families.def lists, and loading a checkpoint through it.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/log.h"
#include "base/version.h"
#include "io/gguf.h"
#include "models/family.h"

namespace mlxcel::models {

#define FAMILY(file, symbol) \
  extern const Family symbol;  // NOLINT(bugprone-macro-parentheses): a declaration
#include "models/families.def"
#undef FAMILY

namespace {

constexpr std::array kFamilies = {
#define FAMILY(file, symbol) &symbol,
#include "models/families.def"
#undef FAMILY
};

/// Tensors that no family needs: rotary frequencies are made from the config.
constexpr std::array<io::Rename, 4> kDropped = {{{"*.rotary_emb.inv_freq", ""},
                                                 {"rope_freqs.weight", ""},
                                                 {"rope_factors_long.weight", ""},
                                                 {"rope_factors_short.weight", ""}}};

/// Families whose golden tests pass on the GPU.
constexpr std::array<std::string_view, 3> kOnGpu = {"llama", "qwen2", "qwen3"};

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

[[noreturn]] void unsupported(std::string_view raw) {
  throw Error(Code::Unsupported, fmt::format("Unsupported model type: {}", raw));
}

const Family& family_of(const io::Checkpoint& checkpoint) {
  if (!checkpoint.gguf) {
    (void)checkpoint.model_type();  // a missing key has an error of its own
    return find_family(checkpoint.config.str("model_type"));
  }
  const std::string arch = checkpoint.gguf->str_or("general.architecture", "");
  for (const Family* family : kFamilies) {
    if (contains(family->gguf_archs, arch)) return *family;
  }
  unsupported(arch);
}

/// Up to 200 names, then a count: a wrong config can miss thousands.
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 200;
  const auto shown = std::span(names).first(std::min(names.size(), kMost));
  std::string text = fmt::format("{}", fmt::join(shown, ", "));
  if (names.size() > kMost) text += fmt::format(" and {} more", names.size() - kMost);
  return text;
}

Json strings(std::span<const std::string_view> names) {
  Json list = Json::array();
  for (const std::string_view name : names) list.push_back(name);
  return list;
}

Json one(const char* name) { return Json::array({Json(name)}); }

Json family_json(const Family& family) {
  Json backends = Json::object();
  backends.set("cpu", "supported");
  backends.set("cuda", contains(kOnGpu, family.name) ? "supported" : "unsupported");
  for (const char* other : {"metal", "rocm"}) backends.set(other, "unsupported");
  Json f = Json::object();
  f.set("id", family.name);
  f.set("display_name", family.display_name);
  f.set("category", family.category);
  f.set("model_types", strings(family.model_types));
  f.set("aliases", Json::array());
  f.set("gguf_architectures", strings(family.gguf_archs));
  f.set("runtimes", one("generate"));
  f.set("modalities_in", one("text"));
  f.set("output", "tokens");
  f.set("backends", std::move(backends));
  f.set("tensor_parallel", false);
  f.set("pipeline_parallel", false);
  f.set("drafters", Json::array());
  f.set("kv_modes", one("fp16"));
  const bool blocks = family.prefix_sharing == PrefixSharing::Blocks;
  f.set("prefix_sharing", blocks ? "blocks" : "snapshots");
  return f;
}

}  // namespace

std::span<const Family* const> registry() { return kFamilies; }

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& ch : out) {
    if (ch >= 'A' && ch <= 'Z') ch = static_cast<char>(ch - 'A' + 'a');
  }
  return out;
}

const Family& find_family(std::string_view model_type) {
  const std::string type = lower_case(model_type);
  for (const Family* family : kFamilies) {
    if (contains(family->model_types, type)) return *family;
  }
  unsupported(model_type);
}

Device device_for(const io::Checkpoint& checkpoint, Device wanted) {
  if (wanted.kind == DeviceKind::Cpu) return wanted;
  const Family& family = family_of(checkpoint);
  if (contains(kOnGpu, family.name)) return wanted;
  log::warn("models of the family {} do not run on the GPU yet; running on the CPU", family.name);
  return {};
}

LoadedModel load(const io::Checkpoint& checkpoint, Device device) {
  const Family& family = family_of(checkpoint);
  std::vector<io::Rename> renames(kDropped.begin(), kDropped.end());
  renames.insert(renames.end(), family.renames.begin(), family.renames.end());
  const io::Weights weights = checkpoint.weights(renames, {}, device);
  LoadedModel model = family.load(checkpoint.config, weights);
  if (const auto missing = weights.missing(); !missing.empty()) {
    throw Error(Code::Corrupt,
                fmt::format("{}: {} tensor{} missing: {}", checkpoint.path, missing.size(),
                            missing.size() == 1 ? " is" : "s are", listed(missing)));
  }
  if (const auto unused = weights.unused(); !unused.empty()) {
    log::warn("{}: {} tensor{} not used by {}: {}", checkpoint.path, unused.size(),
              unused.size() == 1 ? " is" : "s are", family.name, listed(unused));
  }
  for (const std::string& key : checkpoint.config.unread()) {
    log::debug("{}: config key \"{}\" is not used", checkpoint.path, key);
  }
  return model;
}

Json registry_json() {
  Json families = Json::array();
  for (const Family* family : kFamilies) families.push_back(family_json(*family));
  Json registry = Json::object();
  registry.set("mlxcel_version", version());
  registry.set("families", std::move(families));
  return registry;
}

}  // namespace mlxcel::models

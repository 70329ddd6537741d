// One row of the model registry, and loading a checkpoint through it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "io/checkpoint.h"
#include "nn/causal_lm.h"

namespace mlxcel::models {

struct LoadedModel {
  std::unique_ptr<nn::CausalLm> lm{};
};

/// How requests share the cache of a common prefix: block by block, or, where layers keep a state
/// that cannot be cut, only up to points at which the state was copied.
enum class PrefixSharing : uint8_t { Blocks, Snapshots };

struct Family {
  std::string_view name;                          // "llama"
  std::string_view display_name;                  // "Llama 1/2/3, Mistral"
  std::string_view category;                      // "dense", "moe", ...
  std::span<const std::string_view> model_types;  // values of config.json "model_type"
  std::span<const std::string_view> gguf_archs;   // values of GGUF "general.architecture"
  std::span<const io::Rename> renames;            // applied to checkpoint names before loading
  LoadedModel (*load)(const io::Config&, const io::Weights&);
  PrefixSharing prefix_sharing = PrefixSharing::Blocks;
};

std::span<const Family* const> registry();
/// ASCII letters of `text` in lower case; checkpoints spell model types in any case.
std::string lower_case(std::string_view text);
/// The family of a model_type; throws Unsupported "Unsupported model type: <raw>".
const Family& find_family(std::string_view model_type);

/// `wanted`, or the CPU when the checkpoint's family does not run there yet; a warning says so.
Device device_for(const io::Checkpoint& checkpoint, Device wanted);

/// Loads the weights of a checkpoint: renames, packing, a check that every needed tensor was there
/// (all missing ones named) and that none was left unused (a warning). Weights go to `device`.
LoadedModel load(const io::Checkpoint& checkpoint, Device device = {});

/// The registry as `mlxcel arch --json` prints it (models.md A.3).
Json registry_json();

}  // namespace mlxcel::models

// Small checkpoints that engine tests run on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/causal_lm.h"

namespace mlxcel::engine::testing {

/// "stories260K/hf" and its other forms, and golden cases of every family ("llama/base").
std::vector<std::string> model_names();
/// Null when the checkpoint is not there.
std::shared_ptr<const nn::CausalLm> load_model(const std::string& name);
/// Folder of the stories260K files; empty when it is not there.
std::string stories_folder();

}  // namespace mlxcel::engine::testing

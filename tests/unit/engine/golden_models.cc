#include "golden_models.h"

#include <filesystem>

#include "io/checkpoint.h"
#include "models/family.h"
#include "testing/paths.h"

namespace mlxcel::engine::testing {

std::vector<std::string> model_names() {
  return {"stories260K/hf", "stories260K/stories260K-4bit", "stories260K/stories260K.gguf"};
}

std::string stories_folder() {
  const std::string own = mlxcel::testing::data_path("stories260K");
  return std::filesystem::exists(own) ? own : mlxcel::testing::shared_path("stories260K");
}

std::shared_ptr<const nn::CausalLm> load_model(const std::string& name) {
  const std::string root = stories_folder();
  if (root.empty()) return nullptr;
  const std::string file = name.substr(name.find('/') + 1);
  return models::load(io::open_checkpoint(root + "/" + file)).lm;
}

}  // namespace mlxcel::engine::testing

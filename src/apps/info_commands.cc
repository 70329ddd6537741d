// arch and --version: what this program can do and what it was built from.
#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "apps/commands.h"
#include "backend/register.h"
#include "base/json.h"
#include "base/version.h"
#include "models/family.h"
#include "ops/ops.h"

namespace mlxcel::apps {
namespace {

std::string_view category_title(std::string_view category) {
  if (category == "dense") return "Dense";
  if (category == "moe") return "Mixture of experts";
  if (category == "hybrid_ssm") return "Hybrid state-space";
  if (category == "linear_attention") return "Linear attention";
  if (category == "diffusion") return "Diffusion";
  if (category == "vlm") return "Vision-language";
  if (category == "asr") return "Speech-to-text";
  if (category == "tts") return "Text-to-speech";
  if (category == "embedding") return "Embedding";
  if (category == "reranker") return "Reranker";
  if (category == "detection") return "Detection";
  return category;
}

}  // namespace

int print_architectures(const ArchArguments& arguments) {
  if (arguments.json) {
    fmt::print("{}\n", models::registry_json().dump(2));
    return 0;
  }
  fmt::print("Supported Model Architectures:\n");
  std::vector<std::string_view> done;
  for (const models::Family* first : models::registry()) {
    if (std::find(done.begin(), done.end(), first->category) != done.end()) continue;
    done.push_back(first->category);
    fmt::print("\n{}:\n", category_title(first->category));
    for (const models::Family* family : models::registry()) {
      if (family->category == first->category) fmt::print("- {}\n", family->display_name);
    }
  }
  return 0;
}

int print_version(const VersionArguments&) {
  fmt::print("mlxcel {}\ncommit: {}\nbuild: {}, {}\nbackends: {}\ncpu: {}\n", version(), commit(),
             build_type(), compiler(), backend::names(), ops::cpu_isa());
  return 0;
}

}  // namespace mlxcel::apps

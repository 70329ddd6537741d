#include "golden_models.h"

#include <filesystem>

#include "golden/golden_case.h"
#include "golden/load_model.h"
#include "io/checkpoint.h"
#include "models/family.h"
#include "testing/paths.h"

namespace mlxcel::engine::testing {

std::vector<std::string> model_names() {
  return {"stories260K/hf",
          "stories260K/stories260K-4bit",
          "stories260K/stories260K.gguf",
          "llama/base",
          "llama/affine4_g64",
          "llama/gguf_q4_1",
          "mistral/base",
          "mistral/window_8",
          "qwen2/base",
          "qwen2/window",
          "qwen3/base",
          "qwen3/window",
          "qwen3/affine4_g128",
          "qwen3/gguf_q4_0",
          "mamba/base",
          "mamba2/base",
          "lfm2/base",
          "granitemoehybrid/dense",
          "falcon_h1/norm_before_gate",
          "qwen3_5/base",
          "recurrent_gemma/base",
          "nemotron_h/dense",
          "jamba/dense",
          "rwkv7/base",
          "plamo2/base",
          "gemma2/base",
          "gemma3/base",
          "gemma4/shared_kv",
          "phi3/longrope_long",
          "cohere2/base",
          "olmo3/yarn",
          "gpt2/base",
          "gpt_neox/base",
          "ministral3/window",
          "mixtral/window_bf16",
          "qwen3_moe/mlx_mixed",
          "glm4_moe/groups",
          "granitemoehybrid/experts",
          "nemotron_h/experts",
          "jamba/experts",
          "qwen3_next/some_sparse",
          "qwen3_5_moe/base",
          "kimi_linear/base"};
}

std::string stories_folder() {
  const std::string own = mlxcel::testing::data_path("stories260K");
  return std::filesystem::exists(own) ? own : mlxcel::testing::shared_path("stories260K");
}

std::shared_ptr<const nn::CausalLm> load_model(const std::string& name) {
  if (!name.starts_with("stories260K/")) {
    const mlxcel::testing::GoldenCase c = mlxcel::testing::load_golden(name);
    const mlxcel::testing::TempDir folder;
    std::string path = folder.path();
    if (c.has_block_kinds()) {
      path = folder.file("model.gguf");
      write_gguf_checkpoint(c, path);
    } else {
      write_safetensors_checkpoint(c, path);
    }
    return mlxcel::testing::load_for_test(path).lm;
  }
  const std::string root = stories_folder();
  if (root.empty()) return nullptr;
  const std::string file = name.substr(name.find('/') + 1);
  return mlxcel::testing::load_for_test(root + "/" + file).lm;
}

}  // namespace mlxcel::engine::testing

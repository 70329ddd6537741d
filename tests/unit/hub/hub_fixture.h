// A home of its own for every hub test: no variable of the caller reaches the code.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/hub.h"
#include "testing/env.h"
#include "testing/hub_server.h"
#include "testing/paths.h"

namespace mlxcel::io {

class HubTest : public ::testing::Test {
 protected:
  HubTest() {
    for (const char* name :
         {"MLXCEL_MODELS_DIR", "MLXCEL_CACHE_DIR", "MLXCEL_DEFAULT_ORG", "HF_HUB_CACHE", "HF_HOME",
          "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "LLAMA_ARG_OFFLINE",
          "MLXCEL_EXTRA_CA_CERTS", "MLXCEL_ALLOW_INSECURE_ENDPOINT", "http_proxy", "https_proxy",
          "HTTPS_PROXY", "ALL_PROXY", "all_proxy"}) {
      set(name, std::nullopt);
    }
    set("HOME", home_.path());
    std::filesystem::create_directories(home_.file("work"));
    std::filesystem::current_path(home_.file("work"));
    options_.quiet = true;
    options_.retry_delay_ms = 5;
  }
  ~HubTest() override { std::filesystem::current_path(before_); }

  void set(const char* name, std::optional<std::string> value) {
    env_.push_back(std::make_unique<testing::ScopedEnv>(name, std::move(value)));
  }
  /// A complete little snapshot at `dir` below the home.
  std::string snapshot(const std::string& dir) const {
    home_.write(dir + "/config.json", "{}");
    home_.write(dir + "/model.safetensors", "weights");
    return home_.file(dir);
  }
  std::string store(const std::string& repo_id) const {
    return home_.file(".cache/mlxcel/models/" + repo_id);
  }

  std::filesystem::path before_ = std::filesystem::current_path();
  testing::TempDir home_;
  std::vector<std::unique_ptr<testing::ScopedEnv>> env_;
  HubOptions options_;
};

}  // namespace mlxcel::io

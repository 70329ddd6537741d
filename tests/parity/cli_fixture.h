// The built program on the small story model.
#pragma once

#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "testing/paths.h"
#include "testing/process.h"

namespace mlxcel {

class CliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    program_ = testing::program_path("mlxcel");
    ASSERT_FALSE(program_.empty()) << "MLXCEL_TEST_BIN is not set";
    ASSERT_TRUE(file_exists(program_)) << program_ << " is not built";
    for (const char* name : {"HOME", "MLXCEL_CACHE_DIR", "HF_HOME"}) {
      options_.env[name] = home_.path();
    }
    options_.env["MLXCEL_MODELS_DIR"] = home_.file("store");
    options_.env["LLAMA_ARG_OFFLINE"] = "1";
  }
  testing::ProcessResult mlxcel(const std::vector<std::string>& arguments) const {
    return testing::run_process(program_, arguments, options_);
  }
  /// Runs, expects success and returns what the model said: stdout without the summary at its end.
  std::string answer(const std::vector<std::string>& arguments) const {
    const testing::ProcessResult r = mlxcel(arguments);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    const size_t end = r.out.rfind("\n\n[Generated ");
    EXPECT_NE(end, std::string::npos) << r.out;
    return r.out.substr(0, end);
  }
  /// Runs, expects failure with one "error: ..." line and returns it.
  std::string error(const std::vector<std::string>& arguments) const {
    const testing::ProcessResult r = mlxcel(arguments);
    EXPECT_GT(r.exit_code, 0) << r.out;
    EXPECT_LT(r.exit_code, 126) << "ended by a signal: " << r.err;
    const size_t at = r.err.find("error: ");
    EXPECT_NE(at, std::string::npos) << r.err;
    return at == std::string::npos ? std::string() : r.err.substr(at);
  }
  /// The MLX 4-bit form of the story model, which is part of the repository.
  static std::string story() { return testing::data_path("stories260K-4bit"); }
  /// A writable copy of it, for tests that change a file.
  std::string story_copy(const std::string& name = "copy") const {
    std::filesystem::copy(story(), home_.file(name), std::filesystem::copy_options::recursive);
    return home_.file(name);
  }

  std::string program_;
  testing::TempDir home_;
  testing::ProcessOptions options_;
};

}  // namespace mlxcel

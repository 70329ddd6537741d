// list, rm and download as a person sees them.
#include <gmock/gmock.h>

#include <filesystem>

#include "apps/commands.h"
#include "base/error.h"
#include "base/json.h"
#include "testing/env.h"
#include "testing/hub_server.h"
#include "testing/paths.h"

namespace mlxcel::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class StoreCommands : public ::testing::Test {
 protected:
  StoreCommands() {
    list_.models_dir = remove_.hub.models_dir = root();
    remove_.yes = true;
  }
  std::string root() const { return home_.file("store"); }
  void add(const std::string& repo_id, size_t bytes) const {
    home_.write("store/" + repo_id + "/config.json", "{}");
    home_.write("store/" + repo_id + "/model.safetensors", std::string(bytes, 'w'));
  }
  std::string list() {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(list_models(list_), 0);
    std::fflush(stdout);
    return ::testing::internal::GetCapturedStdout();
  }

  testing::TempDir home_;
  testing::ScopedEnv home_variable_{"HOME", home_.path()};
  testing::ScopedEnv no_cache_{"HF_HUB_CACHE", std::nullopt};
  testing::ScopedEnv no_hf_{"HF_HOME", std::nullopt};
  ListArguments list_;
  RemoveArguments remove_;
};

TEST_F(StoreCommands, TableHasSizesAndOptionalPaths) {
  add("o/small", 100);
  add("o/large", 5'000'000);
  const std::string table = list();
  EXPECT_THAT(table, HasSubstr("REPO ID"));
  EXPECT_THAT(table, HasSubstr("5.0 MB"));
  EXPECT_THAT(table, Not(HasSubstr(root())));
  EXPECT_LT(table.find("o/large"), table.find("o/small"));
  list_.verbose = true;
  EXPECT_THAT(list(), HasSubstr(root() + "/o/small"));
}

TEST_F(StoreCommands, QuietPrintsIdsOnly) {
  EXPECT_THAT(list(), HasSubstr("No models"));
  list_.quiet = true;
  EXPECT_EQ(list(), "");
  add("o/b", 1);
  add("o/a", 1);
  EXPECT_EQ(list(), "o/a\no/b\n");
}

TEST_F(StoreCommands, SortsBySizeAndTime) {
  add("o/a", 10);
  add("o/b", 1000);
  add("o/c", 100);
  list_.quiet = true;
  list_.sort = "size";
  EXPECT_EQ(list(), "o/b\no/c\no/a\n");
  const auto now = fs::file_time_type::clock::now();
  int hours = 0;
  for (const char* id : {"o/c", "o/b", "o/a"}) {
    for (const char* file : {"/config.json", "/model.safetensors"}) {
      fs::last_write_time(root() + "/" + id + file, now - std::chrono::hours(hours));
    }
    ++hours;
  }
  list_.sort = "modified";
  EXPECT_EQ(list(), "o/c\no/b\no/a\n");
}

TEST_F(StoreCommands, JsonHasTheFourFields) {
  add("o/a", 10);
  list_.json = true;
  const Json array = Json::parse(list()).value();
  ASSERT_EQ(array.size(), 1U);
  const Json& entry = array.as_array()[0];
  EXPECT_EQ(entry.find("repo_id")->as_string(), "o/a");
  EXPECT_EQ(entry.find("size_bytes")->as_int(), 12);
  EXPECT_EQ(entry.find("path")->as_string(), root() + "/o/a");
  EXPECT_GT(entry.find("modified")->as_int(), 1'600'000'000);
  EXPECT_EQ(entry.size(), 4U);
}

TEST_F(StoreCommands, RemoveDeletesAndSaysSo) {
  add("o/a", 10);
  remove_.repo_id = "o/a";
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(remove_model(remove_), 0);
  std::fflush(stdout);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("Removed o/a"));
  EXPECT_FALSE(fs::exists(root() + "/o/a"));
  EXPECT_THROW(remove_model(remove_), Error);
}

TEST_F(StoreCommands, RemoveReportsACacheCopyAndKeepsIt) {
  const std::string commit(40, 'a');
  const std::string repo = ".cache/huggingface/hub/models--o--a";
  home_.write(repo + "/refs/main", commit);
  home_.write(repo + "/snapshots/" + commit + "/config.json", "{}");
  const std::string weights =
      home_.write(repo + "/snapshots/" + commit + "/model.safetensors", "w");
  remove_.repo_id = "o/a";
  try {
    remove_model(remove_);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.message(), HasSubstr("Hugging Face cache"));
  }
  EXPECT_TRUE(fs::exists(weights));
}

TEST_F(StoreCommands, RemoveRefusesPaths) {
  fs::create_directories(home_.file("victim/x"));
  for (const char* id : {"../victim", "x", "/etc", "o/.."}) {
    remove_.repo_id = id;
    EXPECT_THROW(remove_model(remove_), Error) << id;
  }
  EXPECT_TRUE(fs::exists(home_.file("victim/x")));
}

TEST_F(StoreCommands, DownloadPrintsThePath) {
  testing::HubServer server;
  server.put("o/n", {.files = {{"config.json", {.content = "{}"}},
                               {"model.safetensors", {.content = "w", .lfs = true}}}});
  const testing::ScopedEnv endpoint("HF_ENDPOINT", server.url());
  const testing::ScopedEnv proxy("http_proxy", std::nullopt);
  DownloadArguments arguments;
  arguments.repo_id = "o/n";
  arguments.hub.models_dir = root();
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(download(arguments), 0);
  std::fflush(stdout);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), root() + "/o/n\n");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("Downloading o/n: 2 files"));
}

}  // namespace
}  // namespace mlxcel::apps

#include <gmock/gmock.h>

#include "base/error.h"
#include "hub_fixture.h"

namespace mlxcel::io {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kCommit = "89abcdef0123456789abcdef0123456789abcdef";

class ResolveTest : public HubTest {
 protected:
  ResolveTest() { options_.offline = true; }
  std::string hf(const std::string& root, const std::string& repo, const std::string& commit) {
    home_.write(root + "/models--o--" + repo + "/refs/main", commit);
    return snapshot(root + "/models--o--" + repo + "/snapshots/" + commit);
  }
  Code code_of(const std::string& model) {
    try {
      resolve_model(model, options_);
    } catch (const Error& e) {
      message_ = e.message();
      return e.code();
    }
    ADD_FAILURE() << model << " resolved";
    return Code::Internal;
  }
  std::string message_;
};

TEST_F(ResolveTest, ExistingPathIsTakenAsItIs) {
  const std::string dir = snapshot("models-of-mine");
  EXPECT_EQ(resolve_model(dir, options_).path, dir);
  EXPECT_EQ(resolve_model(dir, options_).repo_id, "");
  const std::string file = home_.write("x.gguf", "GGUF");
  EXPECT_EQ(resolve_model(file, options_).path, file);
}

TEST_F(ResolveTest, RevisionDoesNotApplyToAPath) {
  options_.revision = "v1";
  EXPECT_EQ(code_of(snapshot("m")), Code::InvalidArgument);
  EXPECT_THAT(message_, HasSubstr("--revision"));
}

TEST_F(ResolveTest, LocalModelsFolderThenCacheThenStore) {
  snapshot(".cache/mlxcel/models/o/n");
  EXPECT_EQ(resolve_model("o/n", options_).path, store("o/n"));
  const std::string cached = hf(".cache/huggingface/hub", "n", kCommit);
  EXPECT_EQ(resolve_model("o/n", options_).path, cached);
  snapshot("work/models/n");
  const Resolved local = resolve_model("o/n", options_);
  EXPECT_EQ(local.path, "./models/n");
  EXPECT_EQ(local.repo_id, "o/n");
}

TEST_F(ResolveTest, IncompleteCopiesAreSteppedOver) {
  home_.write("work/models/n/config.json", "{}");
  home_.write(std::string(".cache/huggingface/hub/models--o--n/refs/main"), kCommit);
  snapshot(".cache/mlxcel/models/o/n");
  EXPECT_EQ(resolve_model("o/n", options_).path, store("o/n"));
}

TEST_F(ResolveTest, CacheVariables) {
  const std::string by_home = hf("hfhome/hub", "n", kCommit);
  set("HF_HOME", home_.file("hfhome"));
  EXPECT_EQ(resolve_model("o/n", options_).path, by_home);
  const std::string by_cache = hf("hubcache", "n", kCommit);
  set("HF_HUB_CACHE", home_.file("hubcache"));
  EXPECT_EQ(resolve_model("o/n", options_).path, by_cache);
}

TEST_F(ResolveTest, RevisionSkipsLocalFolderAndStore) {
  snapshot("work/models/n");
  snapshot(".cache/mlxcel/models/o/n");
  options_.revision = "main";
  EXPECT_EQ(code_of("o/n"), Code::NotFound);
  const std::string cached = hf(".cache/huggingface/hub", "n", kCommit);
  EXPECT_EQ(resolve_model("o/n", options_).path, cached);
  options_.revision = kCommit;
  EXPECT_EQ(resolve_model("o/n", options_).path, cached);
  options_.revision = "v2";
  EXPECT_EQ(code_of("o/n"), Code::NotFound);
  options_.revision = "../../../x";
  EXPECT_EQ(code_of("o/n"), Code::InvalidArgument);
}

TEST_F(ResolveTest, HostileRefDoesNotLeaveTheCache) {
  home_.write(".cache/huggingface/hub/models--o--n/refs/main", "../../../../m");
  snapshot("m");
  EXPECT_EQ(code_of("o/n"), Code::NotFound);
}

TEST_F(ResolveTest, BareNameGetsTheDefaultOwner) {
  snapshot(".cache/mlxcel/models/mlx-community/n");
  EXPECT_EQ(resolve_model("n", options_).repo_id, "mlx-community/n");
  set("MLXCEL_DEFAULT_ORG", "me");
  snapshot(".cache/mlxcel/models/me/n");
  EXPECT_EQ(resolve_model("n", options_).path, store("me/n"));
  options_.quiet = false;
  ::testing::internal::CaptureStderr();
  resolve_model("n", options_);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("me/n"));
}

TEST_F(ResolveTest, OfflineMissNamesThePlaces) {
  EXPECT_EQ(code_of("o/n"), Code::NotFound);
  EXPECT_THAT(message_, HasSubstr("./models/n"));
  EXPECT_THAT(message_, HasSubstr(store("o/n")));
  options_.offline = false;
  set("LLAMA_ARG_OFFLINE", "1");
  EXPECT_EQ(code_of("o/n"), Code::NotFound);
}

TEST_F(ResolveTest, WhatIsNeitherPathNorRepository) {
  EXPECT_EQ(code_of("./no/such/dir"), Code::NotFound);
  EXPECT_EQ(code_of("a/b/c"), Code::NotFound);
  EXPECT_EQ(code_of(""), Code::InvalidArgument);
  EXPECT_EQ(code_of("https://h/o/n"), Code::Unsupported);
}

TEST_F(ResolveTest, GgufFolders) {
  home_.write("g/only.gguf", "GGUF");
  EXPECT_EQ(resolve_model(home_.file("g"), options_).path, home_.file("g/only.gguf"));
  home_.write("g/second.gguf", "GGUF");
  EXPECT_EQ(code_of(home_.file("g")), Code::InvalidArgument);
  EXPECT_THAT(message_, HasSubstr("second.gguf"));
  options_.file = "second.gguf";
  EXPECT_EQ(resolve_model(home_.file("g"), options_).path, home_.file("g/second.gguf"));
  options_.file = "../x.gguf";
  EXPECT_EQ(code_of(home_.file("g")), Code::InvalidArgument);
}

TEST_F(ResolveTest, HfFileFromTheStore) {
  home_.write(".cache/mlxcel/models/o/n/a.gguf", "GGUF");
  home_.write(".cache/mlxcel/models/o/n/b.gguf", "GGUF");
  options_.file = "b.gguf";
  EXPECT_EQ(resolve_model("o/n", options_).path, store("o/n") + "/b.gguf");
}

TEST_F(ResolveTest, SplitGgufIsNamedByItsFirstPart) {
  const std::string first = home_.write("g/m-00001-of-00002.gguf", "GGUF");
  EXPECT_FALSE(is_complete_snapshot(home_.file("g"))) << "the second part is missing";
  const std::string second = home_.write("g/m-00002-of-00002.gguf", "GGUF");
  EXPECT_TRUE(is_complete_snapshot(home_.file("g")));
  EXPECT_EQ(resolve_model(first, options_).path, first);
  EXPECT_EQ(resolve_model(home_.file("g"), options_).path, first);
  EXPECT_EQ(code_of(second), Code::InvalidArgument);
  EXPECT_THAT(message_, HasSubstr("first part"));
}

TEST_F(ResolveTest, UnfinishedFolderIsAnError) {
  const std::string dir = snapshot("m");
  home_.write("m/.mlxcel-incomplete", "x");
  EXPECT_EQ(code_of(dir), Code::NotFound);
  EXPECT_THAT(message_, HasSubstr("not finished"));
}

}  // namespace
}  // namespace mlxcel::io

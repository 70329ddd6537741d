#include "io/store.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "hub_fixture.h"

namespace mlxcel::io {
namespace {

namespace fs = std::filesystem;

class StoreTest : public HubTest {};

TEST_F(StoreTest, RootFollowsFlagThenVariablesThenHome) {
  EXPECT_EQ(store_root(options_), home_.path() + "/.cache/mlxcel/models");
  set("MLXCEL_CACHE_DIR", "/c");
  EXPECT_EQ(store_root(options_), "/c/models");
  set("MLXCEL_MODELS_DIR", "/m");
  EXPECT_EQ(store_root(options_), "/m");
  options_.models_dir = "/flag";
  EXPECT_EQ(store_root(options_), "/flag");
}

TEST_F(StoreTest, RootWithoutHomeIsAnError) {
  set("HOME", std::nullopt);
  EXPECT_THROW(store_root(options_), Error);
}

TEST_F(StoreTest, CompleteMeansEveryShardOfTheIndex) {
  const std::string dir = home_.file("m");
  EXPECT_FALSE(is_complete_snapshot(dir));
  home_.write("m/config.json", "{}");
  EXPECT_FALSE(is_complete_snapshot(dir));
  home_.write("m/a.safetensors", "");
  EXPECT_FALSE(is_complete_snapshot(dir)) << "an empty file is no weight file";
  home_.write("m/a.safetensors", "x");
  EXPECT_TRUE(is_complete_snapshot(dir));
  home_.write("m/model.safetensors.index.json",
              R"({"weight_map": {"t": "a.safetensors", "u": "b.safetensors"}})");
  EXPECT_FALSE(is_complete_snapshot(dir));
  home_.write("m/b.safetensors", "y");
  EXPECT_TRUE(is_complete_snapshot(dir));
  home_.write("m/.mlxcel-incomplete", "abc");
  EXPECT_FALSE(is_complete_snapshot(dir));
}

TEST_F(StoreTest, StaleIndexIsSteppedOver) {
  home_.write("m/config.json", "{}");
  home_.write("m/model.safetensors", "x");
  home_.write("m/model.safetensors.index.json",
              R"({"weight_map": {"t": "model-00001-of-00002.safetensors",
                                 "u": "model-00002-of-00002.safetensors"}})");
  EXPECT_TRUE(is_complete_snapshot(home_.file("m")));
  home_.write("m/model-00001-of-00002.safetensors", "x");
  EXPECT_FALSE(is_complete_snapshot(home_.file("m")));
}

TEST_F(StoreTest, BrokenIndexIsNotComplete) {
  for (const char* index : {"{", "[]", R"({"weight_map": {}})", R"({"weight_map": {"t": 1}})"}) {
    home_.write("m/config.json", "{}");
    home_.write("m/a.safetensors", "x");
    home_.write("m/model.safetensors.index.json", index);
    EXPECT_FALSE(is_complete_snapshot(home_.file("m"))) << index;
  }
}

TEST_F(StoreTest, GgufAloneIsComplete) {
  home_.write("m/q.gguf", "GGUF");
  EXPECT_TRUE(is_complete_snapshot(home_.file("m")));
}

TEST_F(StoreTest, ListsCompleteModelsByName) {
  snapshot(".cache/mlxcel/models/b/two");
  snapshot(".cache/mlxcel/models/a/one");
  home_.write(".cache/mlxcel/models/a/half/config.json", "{}");
  const auto models = list_store(options_);
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[0].repo_id, "a/one");
  EXPECT_EQ(models[0].size_bytes, 9);
  EXPECT_GT(models[0].modified_unix, 1'600'000'000);
  EXPECT_EQ(models[1].repo_id, "b/two");
}

TEST_F(StoreTest, ListOfNothingIsEmpty) { EXPECT_TRUE(list_store(options_).empty()); }

TEST_F(StoreTest, RemovesModelAndEmptyOwner) {
  snapshot(".cache/mlxcel/models/a/one");
  snapshot(".cache/mlxcel/models/a/two");
  remove_from_store("a/one", options_);
  EXPECT_FALSE(fs::exists(store("a/one")));
  EXPECT_TRUE(fs::exists(store("a/two")));
  remove_from_store("a/two", options_);
  EXPECT_FALSE(fs::exists(store("a")));
  EXPECT_TRUE(fs::exists(home_.file(".cache/mlxcel/models")));
}

TEST_F(StoreTest, RemovalStaysBelowTheRoot) {
  const std::string outside = snapshot("outside/one");
  fs::create_directories(home_.file(".cache/mlxcel/models/b"));
  fs::create_directory_symlink(home_.file("outside"), home_.file(".cache/mlxcel/models/a"));
  fs::create_directory_symlink(outside, home_.file(".cache/mlxcel/models/b/one"));
  EXPECT_THROW(remove_from_store("a/one", options_), Error);
  EXPECT_THROW(remove_from_store("b/one", options_), Error);
  EXPECT_THROW(remove_from_store("../outside", options_), Error);
  EXPECT_THROW(remove_from_store("a", options_), Error);
  EXPECT_TRUE(fs::exists(outside + "/model.safetensors"));
}

TEST_F(StoreTest, RemovingWhatIsNotThereIsNotFound) {
  try {
    remove_from_store("a/none", options_);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::NotFound);
    EXPECT_THAT(e.message(), ::testing::HasSubstr("a/none"));
  }
}

}  // namespace
}  // namespace mlxcel::io

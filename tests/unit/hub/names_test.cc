#include "io/hub_names.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "io/hub.h"
#include "testing/env.h"

namespace mlxcel::io {
namespace {

TEST(HubNames, AcceptsOrdinaryRepositoryIds) {
  EXPECT_TRUE(is_repo_id("mlx-community/Qwen3-4B-4bit"));
  EXPECT_TRUE(is_repo_id("a_b/c.d"));
}

TEST(HubNames, RefusesWhatWouldLeaveTheStore) {
  for (const char* bad : {"", "name", "/name", "owner/", "../x", "x/..", "./x", "x/.", "a/b/c",
                          "a b/c", "a/b\n", "a/b\\c", "\xC3\xA9/x"}) {
    EXPECT_FALSE(is_repo_id(bad)) << bad;
  }
}

TEST(HubNames, RefusesHostileFileNames) {
  EXPECT_NO_THROW(check_repo_file_name("text_encoder/model.safetensors", "o/n"));
  EXPECT_NO_THROW(check_repo_file_name("a b+c.json", "o/n"));
  for (const char* bad : {"", "/etc/passwd", "../x.json", "a/../../x", "a//b", "./x", "a/.",
                          "a\\..\\b", "a\nb", "x/"}) {
    EXPECT_THROW(check_repo_file_name(bad, "o/n"), Error) << bad;
  }
  EXPECT_THROW(check_repo_file_name(std::string("a\0b", 3), "o/n"), Error);
  EXPECT_THROW(check_repo_file_name(std::string(5000, 'a'), "o/n"), Error);
}

TEST(HubNames, ChecksRevisions) {
  EXPECT_NO_THROW(check_revision("refs/pr/1"));
  EXPECT_NO_THROW(check_revision("v1.0-rc"));
  for (const char* bad : {"", "..", "a/../b", "/x", "a b", "a?b"}) {
    EXPECT_THROW(check_revision(bad), Error) << bad;
  }
}

TEST(HubNames, EncodesPathsAndHidesQueries) {
  EXPECT_EQ(url_path("a b/c+d.json"), "a%20b/c%2Bd.json");
  EXPECT_EQ(url_for_messages("https://h/p?sig=secret#x"), "https://h/p");
  EXPECT_EQ(url_for_messages("http://user:se@cret@h:9/a@b"), "http://h:9/a@b");
  EXPECT_EQ(url_for_messages("user:secret@h"), "h");
}

TEST(HubNames, ExpandsBareNames) {
  {
    const testing::ScopedEnv unset("MLXCEL_DEFAULT_ORG", std::nullopt);
    EXPECT_EQ(with_default_org("Qwen3-4B-4bit"), "mlx-community/Qwen3-4B-4bit");
  }
  const testing::ScopedEnv org("MLXCEL_DEFAULT_ORG", "my-org");
  EXPECT_EQ(with_default_org("M"), "my-org/M");
  const testing::ScopedEnv bad("MLXCEL_DEFAULT_ORG", "../..");
  EXPECT_THROW(with_default_org("M"), Error);
}

TEST(HubNames, KnowsModelFiles) {
  for (const char* good : {"a.safetensors", "x/tokenizer.json", "chat_template.jinja",
                           "tokenizer.model", "q.tiktoken", "merges.txt", "m.gguf"}) {
    EXPECT_TRUE(is_model_file(good)) << good;
  }
  for (const char* bad :
       {"README.md", "pytorch_model.bin", "modeling.py", ".gitattributes", "x.pth"}) {
    EXPECT_FALSE(is_model_file(bad)) << bad;
  }
}

}  // namespace
}  // namespace mlxcel::io

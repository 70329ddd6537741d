// Downloads that go well: what is fetched, where it goes, tokens, redirects, pages, TLS.
#include "download_fixture.h"
#include "io/store.h"

namespace mlxcel::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HubRequest;
using testing::HubServer;
using ::testing::Not;
namespace fs = std::filesystem;

TEST_F(DownloadTest, FetchesModelFilesIntoTheStore) {
  server_.put("o/n", repo());
  EXPECT_EQ(download_model("o/n", options_), store("o/n"));
  EXPECT_THAT(files_in(store("o/n")),
              ElementsAre("config.json", "model.safetensors", "tokenizer.json"));
  EXPECT_EQ(read_file(store("o/n") + "/model.safetensors"), weights());
  EXPECT_TRUE(is_complete_snapshot(store("o/n")));
}

TEST_F(DownloadTest, ResolveDownloadsOnceAndReuses) {
  server_.put("mlx-community/n", repo());
  EXPECT_EQ(resolve_model("n", options_).path, store("mlx-community/n"));
  server_.forget_requests();
  EXPECT_EQ(resolve_model("n", options_).path, store("mlx-community/n"));
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(DownloadTest, CompleteSnapshotIsNotFetchedAgainUnlessForced) {
  server_.put("o/n", repo());
  download_model("o/n", options_);
  server_.forget_requests();
  download_model("o/n", options_);
  EXPECT_TRUE(server_.requests().empty());
  options_.force = true;
  download_model("o/n", options_);
  EXPECT_EQ(count_requests("model.safetensors"), 1);
}

TEST_F(DownloadTest, FilesOfSubfoldersAndManyPages) {
  HubServer paged({.tree_page = 2});
  testing::HubRepo r = repo();
  for (int i = 0; i < 9; ++i) {
    r.files["vae/part " + std::to_string(i) + ".json"] = {.content = std::to_string(i)};
  }
  paged.put("o/n", r);
  use(paged);
  download_model("o/n", options_);
  EXPECT_EQ(files_in(store("o/n")).size(), 12U);
  EXPECT_EQ(read_file(store("o/n") + "/vae/part 7.json"), "7");
}

TEST_F(DownloadTest, LocalDirTakesTheSnapshotExactly) {
  server_.put("o/n", repo());
  options_.local_dir = home_.file("here");
  EXPECT_EQ(download_model("o/n", options_), home_.file("here"));
  EXPECT_TRUE(fs::exists(home_.file("here/config.json")));
  EXPECT_FALSE(fs::exists(store("o/n")));
}

TEST_F(DownloadTest, OneFileByName) {
  testing::HubRepo r;
  r.files["a.gguf"] = {.content = "GGUF-a", .lfs = true};
  r.files["b.gguf"] = {.content = "GGUF-b", .lfs = true};
  server_.put("o/n", r);
  EXPECT_EQ(code_of_download(), Code::InvalidArgument);
  EXPECT_THAT(message_, HasSubstr("--hf-file"));
  EXPECT_THAT(message_, HasSubstr("b.gguf"));
  options_.file = "b.gguf";
  EXPECT_EQ(download_model("o/n", options_), store("o/n") + "/b.gguf");
  EXPECT_THAT(files_in(store("o/n")), ElementsAre("b.gguf"));
  options_.file = "c.gguf";
  EXPECT_EQ(code_of_download(), Code::NotFound);
  options_.file.clear();
  EXPECT_EQ(resolve_model("o/n", options_).path, store("o/n") + "/b.gguf");
}

TEST_F(DownloadTest, AllPartsOfASplitFile) {
  testing::HubRepo r;
  for (const char* name : {"q4/m-00001-of-00002.gguf", "q4/m-00002-of-00002.gguf", "q8.gguf"}) {
    r.files[name] = {.content = std::string("GGUF ") + name, .lfs = true};
  }
  server_.put("o/n", r);
  options_.file = "q4/m-00001-of-00002.gguf";
  EXPECT_EQ(resolve_model("o/n", options_).path, store("o/n") + "/q4/m-00001-of-00002.gguf");
  EXPECT_THAT(files_in(store("o/n")),
              ElementsAre("q4/m-00001-of-00002.gguf", "q4/m-00002-of-00002.gguf"));
  options_.file = "q4/m-00002-of-00002.gguf";
  EXPECT_EQ(code_of_download(), Code::NotFound);
}

TEST_F(DownloadTest, SafetensorsWinOverGgufAndDuplicates) {
  testing::HubRepo r = repo();
  r.files["q4.gguf"] = {.content = "GGUF", .lfs = true};
  r.files["q8.gguf"] = {.content = "GGUF", .lfs = true};
  r.files["consolidated.safetensors"] = {.content = "again", .lfs = true};
  server_.put("o/n", r);
  download_model("o/n", options_);
  EXPECT_THAT(files_in(store("o/n")),
              ElementsAre("config.json", "model.safetensors", "tokenizer.json"));
}

TEST_F(DownloadTest, EverythingIsFetchedFromOneCommit) {
  testing::HubRepo r = repo();
  server_.put("o/n", r);
  options_.revision = "v1";
  download_model("o/n", options_);
  for (const HubRequest& request : server_.requests()) {
    if (request.path.find("/revision/") == std::string::npos) {
      EXPECT_THAT(request.path, HasSubstr(r.commit));
    }
  }
}

TEST_F(DownloadTest, PinnedRevisionRefusesAnOccupiedStore) {
  server_.put("o/n", repo());
  download_model("o/n", options_);
  options_.revision = "v1";
  EXPECT_EQ(code_of_download(), Code::InvalidArgument);
  EXPECT_THAT(message_, HasSubstr("--models-dir"));
}

TEST_F(DownloadTest, TokenIsNotSentOverPlainHttp) {
  server_.put("o/n", repo());
  options_.token = "hf_secret";
  download_model("o/n", options_);
  for (const HubRequest& request : server_.requests()) EXPECT_FALSE(request.has("authorization"));
}

TEST_F(DownloadTest, TokenStaysWithTheEndpointOnRedirects) {
  HubServer cdn;
  HubServer hub({.cdn = cdn.url("localhost")});
  testing::HubRepo r = repo();
  cdn.put("o/n", r);
  r.token = "hf_secret";
  hub.put("o/n", r);
  use(hub);
  set("MLXCEL_ALLOW_INSECURE_ENDPOINT", "1");
  EXPECT_EQ(code_of_download(), Code::InvalidArgument);
  EXPECT_THAT(message_, HasSubstr("HF_TOKEN"));
  set("HF_TOKEN", "hf_secret");
  download_model("o/n", options_);
  EXPECT_TRUE(is_complete_snapshot(store("o/n")));
  ASSERT_EQ(cdn.requests().size(), 1U);
  EXPECT_FALSE(cdn.requests()[0].has("authorization"));
}

TEST_F(DownloadTest, FlagTokenWinsAndIsNeverPrinted) {
  testing::HubRepo r = repo();
  r.token = "hf_right";
  server_.put("o/n", r);
  set("MLXCEL_ALLOW_INSECURE_ENDPOINT", "1");
  set("HF_TOKEN", "hf_right");
  options_.token = "hf_wrong";
  options_.quiet = false;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(code_of_download(), Code::InvalidArgument);
  EXPECT_THAT(message_, Not(HasSubstr("hf_wrong")));
  EXPECT_THAT(message_, HasSubstr("the token has no access"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), Not(HasSubstr("hf_")));
}

TEST_F(DownloadTest, HttpsWithAnExtraAuthority) {
  HubServer hub({.tls = true});
  testing::HubRepo r = repo();
  r.token = "hf_secret";
  hub.put("o/n", r);
  use(hub);
  options_.token = "hf_secret";
  options_.max_retries = 0;
  EXPECT_EQ(code_of_download(), Code::Deadline) << "an unknown authority is not trusted";
  set("MLXCEL_EXTRA_CA_CERTS", home_.write("ca.pem", hub.certificate_pem()));
  download_model("o/n", options_);
  EXPECT_TRUE(is_complete_snapshot(store("o/n")));
}

TEST_F(DownloadTest, BadExtraAuthorityIsAHardError) {
  server_.put("o/n", repo());
  set("MLXCEL_EXTRA_CA_CERTS", home_.file("none.pem"));
  EXPECT_EQ(code_of_download(), Code::NotFound);
  set("MLXCEL_EXTRA_CA_CERTS", home_.write("bad.pem", "no certificate"));
  EXPECT_EQ(code_of_download(), Code::InvalidArgument);
  set("MLXCEL_EXTRA_CA_CERTS", home_.write("big.pem", std::string(2 << 20, 'x')));
  EXPECT_EQ(code_of_download(), Code::ResourceExhausted);
}

TEST_F(DownloadTest, RedirectFromHttpsToHttpIsRefused) {
  HubServer cdn;
  HubServer hub({.tls = true, .cdn = cdn.url()});
  hub.put("o/n", repo());
  cdn.put("o/n", repo());
  use(hub);
  set("MLXCEL_EXTRA_CA_CERTS", home_.write("ca.pem", hub.certificate_pem()));
  EXPECT_EQ(code_of_download(), Code::InvalidArgument);
  EXPECT_THAT(message_, HasSubstr("redirect"));
  EXPECT_TRUE(cdn.requests().empty());
}

TEST_F(DownloadTest, RelativeRedirectsAreFollowed) {
  server_.put("o/n", repo());
  server_.intercept([&](const HubRequest& r) -> std::optional<testing::HubReply> {
    if (r.path != "/moved" && r.path.find("/resolve/") != std::string::npos && r.query.empty()) {
      testing::HubReply reply{.status = 307, .headers = {}, .body = "", .cut_after = {}};
      reply.headers.emplace_back("Location", r.path + "?again=1");
      return reply;
    }
    return std::nullopt;
  });
  download_model("o/n", options_);
  EXPECT_TRUE(is_complete_snapshot(store("o/n")));
}

TEST_F(DownloadTest, OfflineForbidsIt) {
  options_.offline = true;
  EXPECT_EQ(code_of_download(), Code::InvalidArgument);
}

TEST_F(DownloadTest, NotARepositoryId) {
  EXPECT_EQ(code_of_download("../n"), Code::InvalidArgument);
  EXPECT_EQ(code_of_download("n"), Code::InvalidArgument);
}

}  // namespace
}  // namespace mlxcel::io

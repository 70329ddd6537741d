// Downloads that go wrong: broken transfers, kills, damage, refusals, hostile lists, full disks.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "base/sha256.h"
#include "download_fixture.h"
#include "io/store.h"

namespace mlxcel::io {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HubReply;
using testing::HubRequest;
using testing::HubServer;
using ::testing::Not;
namespace fs = std::filesystem;

class DownloadFaultTest : public DownloadTest {
 protected:
  DownloadFaultTest() { server_.put("o/n", repo()); }
  using Change = std::function<std::optional<HubReply>(const HubRequest&, int attempt)>;
  /// Changes what the hub answers for the weights; attempts count from 0.
  void for_weights(Change change) {
    server_.intercept([this, change = std::move(change)](const HubRequest& r) {
      return r.path.ends_with("model.safetensors") ? change(r, attempts_++) : std::nullopt;
    });
  }
  std::string part_path() const {
    return store("o/n") + "/model.safetensors." + hex(sha256(weights())).substr(0, 16) + ".part";
  }
  void expect_nothing_looks_complete() const {
    EXPECT_FALSE(is_complete_snapshot(store("o/n")));
    EXPECT_FALSE(fs::exists(store("o/n") + "/model.safetensors"));
    EXPECT_TRUE(list_store(options_).empty());
  }
  std::atomic<int> attempts_{0};
};

TEST_F(DownloadFaultTest, TruncatedBodyIsContinued) {
  for_weights([this](const HubRequest& r, int attempt) -> std::optional<HubReply> {
    HubReply reply = server_.answer(r);
    if (attempt < 3) reply.cut_after = 70'000;
    return reply;
  });
  download_model("o/n", options_);
  EXPECT_EQ(read_file(store("o/n") + "/model.safetensors"), weights());
  std::vector<std::string> ranges;
  for (const HubRequest& r : server_.requests()) {
    if (r.path.ends_with("model.safetensors") && r.has("range")) {
      ranges.push_back(r.headers.at("range"));
    }
  }
  EXPECT_THAT(ranges, ElementsAre("bytes=70000-", "bytes=140000-", "bytes=210000-"));
}

TEST_F(DownloadFaultTest, ServerThatIgnoresRangesStartsOver) {
  for_weights([this](const HubRequest& r, int attempt) -> std::optional<HubReply> {
    HubRequest plain = r;
    plain.headers.erase("range");
    HubReply reply = server_.answer(plain);
    if (attempt == 0) reply.cut_after = 100'000;
    return reply;
  });
  download_model("o/n", options_);
  EXPECT_EQ(read_file(store("o/n") + "/model.safetensors"), weights());
}

TEST_F(DownloadFaultTest, KilledDownloadResumesAndNeverLooksComplete) {
  for_weights([this](const HubRequest& r, int) -> std::optional<HubReply> {
    HubReply reply = server_.answer(r);
    reply.chunk_delay_ms = 20;
    return reply;
  });
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      download_model("o/n", options_);
    } catch (...) {
    }
    ::_exit(0);
  }
  for (int i = 0; i < 500; ++i) {
    std::error_code ec;
    if (const auto size = fs::file_size(part_path(), ec); !ec && size > 50'000) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  expect_nothing_looks_complete();
  const auto kept = fs::file_size(part_path());
  EXPECT_GT(kept, 50'000U);

  server_.intercept(nullptr);
  server_.forget_requests();
  EXPECT_EQ(resolve_model("o/n", options_).path, store("o/n"));
  EXPECT_EQ(read_file(store("o/n") + "/model.safetensors"), weights());
  EXPECT_EQ(count_requests("config.json"), 0) << "what was whole is kept";
  for (const HubRequest& r : server_.requests()) {
    if (r.path.ends_with("model.safetensors")) {
      EXPECT_EQ(r.headers.at("range"), fmt::format("bytes={}-", kept));
    }
  }
  EXPECT_THAT(files_in(store("o/n")),
              ElementsAre("config.json", "model.safetensors", "tokenizer.json"));
}

TEST_F(DownloadFaultTest, DamagedPartIsThrownAwayOnce) {
  home_.write(fs::relative(part_path(), home_.path()).string(), std::string(1000, 'x'));
  download_model("o/n", options_);
  EXPECT_EQ(read_file(store("o/n") + "/model.safetensors"), weights());
}

TEST_F(DownloadFaultTest, PartLongerThanTheFileIsThrownAway) {
  home_.write(fs::relative(part_path(), home_.path()).string(), std::string(400'000, 'x'));
  download_model("o/n", options_);
  EXPECT_EQ(read_file(store("o/n") + "/model.safetensors"), weights());
}

TEST_F(DownloadFaultTest, WrongContentIsNamedAndNotKept) {
  for_weights([this](const HubRequest& r, int) -> std::optional<HubReply> {
    HubReply reply = server_.answer(r);
    reply.body[reply.body.size() - 5] ^= 1;
    return reply;
  });
  EXPECT_EQ(code_of_download(), Code::Corrupt);
  EXPECT_THAT(message_, HasSubstr("model.safetensors"));
  EXPECT_THAT(message_, HasSubstr(hex(sha256(weights()))));
  EXPECT_EQ(attempts_, 2);
  expect_nothing_looks_complete();
  EXPECT_FALSE(fs::exists(part_path()));
}

TEST_F(DownloadFaultTest, WrongSmallFileIsNamed) {
  testing::HubRepo r = repo();
  r.files["config.json"].claimed_digest = std::string(40, 'a');
  server_.put("o/n", r);
  EXPECT_EQ(code_of_download(), Code::Corrupt);
  EXPECT_THAT(message_, HasSubstr("config.json"));
  EXPECT_FALSE(is_complete_snapshot(store("o/n")));
}

TEST_F(DownloadFaultTest, DigestOfTheRedirectServesWhenTheListHasNone) {
  HubServer cdn;
  testing::HubRepo r = repo();
  r.files["model.safetensors"].no_digest = true;
  HubServer hub({.cdn = cdn.url()});
  hub.put("o/n", r);
  r.files["model.safetensors"].content[7] ^= 1;
  cdn.put("o/n", r);
  use(hub);
  EXPECT_EQ(code_of_download(), Code::Corrupt);
}

TEST_F(DownloadFaultTest, NewCommitWithFilesOfEqualSizeIsNotMixed) {
  for_weights([](const HubRequest&, int) -> std::optional<HubReply> {
    return HubReply{.status = 404, .headers = {}, .body = "", .cut_after = {}};
  });
  EXPECT_EQ(code_of_download(), Code::NotFound);
  fs::remove(store("o/n") + "/tokenizer.json");
  home_.write(".cache/mlxcel/models/o/n/tokenizer.json", "{}");
  testing::HubRepo r = repo();
  r.commit = std::string(40, 'f');
  r.files["tokenizer.json"].content = "[]";
  server_.intercept(nullptr);
  server_.put("o/n", r);
  download_model("o/n", options_);
  EXPECT_EQ(read_file(store("o/n") + "/tokenizer.json"), "[]");
}

TEST_F(DownloadFaultTest, ServerErrorsAreRetriedThenNamed) {
  for_weights([](const HubRequest&, int attempt) -> std::optional<HubReply> {
    if (attempt >= 3) return std::nullopt;
    return HubReply{.status = attempt == 0 ? 500 : 429, .headers = {}, .body = "", .cut_after = {}};
  });
  download_model("o/n", options_);
  EXPECT_EQ(attempts_, 4);

  options_.force = true;
  for_weights([](const HubRequest&, int) -> std::optional<HubReply> {
    return HubReply{.status = 503, .headers = {}, .body = "", .cut_after = {}};
  });
  attempts_ = 0;
  EXPECT_EQ(code_of_download(), Code::Deadline);
  EXPECT_THAT(message_, HasSubstr("503"));
  EXPECT_EQ(attempts_, 1 + options_.max_retries);
}

TEST_F(DownloadFaultTest, RefusalsAreNotRetried) {
  for (const auto& [status, code] :
       {std::pair{404, Code::NotFound}, std::pair{401, Code::InvalidArgument},
        std::pair{403, Code::InvalidArgument}}) {
    attempts_ = 0;
    for_weights([s = status](const HubRequest&, int) -> std::optional<HubReply> {
      return HubReply{.status = s, .headers = {}, .body = "", .cut_after = {}};
    });
    EXPECT_EQ(code_of_download(), code) << status;
    EXPECT_EQ(attempts_, 1) << status;
    expect_nothing_looks_complete();
  }
}

TEST_F(DownloadFaultTest, UnknownRepositoryLeavesNoFolder) {
  EXPECT_EQ(code_of_download("o/none"), Code::NotFound);
  EXPECT_THAT(message_, HasSubstr("o/none"));
  EXPECT_FALSE(fs::exists(store("o")));
}

TEST_F(DownloadFaultTest, NoServerAtAll) {
  set("HF_ENDPOINT", "http://127.0.0.1:1");
  options_.max_retries = 1;
  EXPECT_EQ(code_of_download(), Code::Deadline);
  set("HF_ENDPOINT", "ftp://127.0.0.1");
  EXPECT_EQ(code_of_download(), Code::InvalidArgument);
}

TEST_F(DownloadFaultTest, HostileFileNamesRefuseTheRepository) {
  for (const char* name :
       {"../evil.json", "/tmp/evil.json", "a/../../evil.json", "..\\evil.json"}) {
    testing::HubRepo r = repo();
    r.files[name] = {.content = "{}"};
    server_.put("o/n", r);
    EXPECT_EQ(code_of_download(), Code::InvalidArgument) << name;
    EXPECT_FALSE(fs::exists(store("o/n"))) << name;
  }
}

TEST_F(DownloadFaultTest, NonsenseFromTheApiIsNamed) {
  for (const char* body : {"", "{", "[]", R"({"sha": 5})", R"({"sha": "../x"})"}) {
    server_.intercept([&](const HubRequest&) {
      return HubReply{.status = 200, .headers = {}, .body = body, .cut_after = {}};
    });
    EXPECT_EQ(code_of_download(), Code::Corrupt) << body;
  }
  for (const char* tree : {"{}", R"([{"path": "a.json"}])", R"([{"path": "a.json", "size": -1}])",
                           R"([{"size": 1}])", R"([{"path": "a.json", "size": 1, "oid": "zz"}])",
                           R"([{"path": "a.json", "size": 99999999999999999}])"}) {
    server_.intercept([&](const HubRequest& r) -> std::optional<HubReply> {
      if (r.path.find("/tree/") == std::string::npos) return std::nullopt;
      return HubReply{.status = 200, .headers = {}, .body = tree, .cut_after = {}};
    });
    EXPECT_EQ(code_of_download(), Code::Corrupt) << tree;
  }
}

TEST_F(DownloadFaultTest, RedirectLoopEnds) {
  for_weights([](const HubRequest& r, int) -> std::optional<HubReply> {
    HubReply reply{.status = 302, .headers = {}, .body = "", .cut_after = {}};
    reply.headers.emplace_back("Location", r.path);
    return reply;
  });
  EXPECT_EQ(code_of_download(), Code::InvalidArgument);
  EXPECT_EQ(attempts_, 11);
}

TEST_F(DownloadFaultTest, MoreThanAnnouncedIsRefused) {
  for_weights([this](const HubRequest& r, int) -> std::optional<HubReply> {
    HubReply reply = server_.answer(r);
    reply.body += "more";
    return reply;
  });
  EXPECT_EQ(code_of_download(), Code::Corrupt);
  expect_nothing_looks_complete();
}

TEST_F(DownloadFaultTest, FullDiskIsNamedAndKeepsThePart) {
  std::fflush(nullptr);
  int pipe_fds[2];
  ASSERT_EQ(::pipe(pipe_fds), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // No file may grow beyond 100,000 bytes in this process: writes fail as on a full disk.
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::string text = "no error";
    try {
      download_model("o/n", options_);
    } catch (const Error& e) {
      text = fmt::format("{}: {}", code_name(e.code()), e.message());
    }
    (void)!::write(pipe_fds[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(pipe_fds[1]);
  std::string text(4096, '\0');
  text.resize(static_cast<size_t>(::read(pipe_fds[0], text.data(), text.size())));
  ::close(pipe_fds[0]);
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(text, HasSubstr("resource_exhausted"));
  EXPECT_THAT(text, HasSubstr("disk full"));
  expect_nothing_looks_complete();
  EXPECT_EQ(fs::file_size(part_path()), 100'000U);
  download_model("o/n", options_);
  EXPECT_TRUE(is_complete_snapshot(store("o/n")));
}

TEST_F(DownloadFaultTest, NotEnoughRoomIsSaidBeforehand) {
  // A file list that claims 16 TiB - more than the disk of any test machine.
  server_.intercept([](const HubRequest& r) -> std::optional<HubReply> {
    if (r.path.find("/tree/") == std::string::npos) return std::nullopt;
    return HubReply{.status = 200,
                    .headers = {},
                    .body = R"([{"path": "model.safetensors", "size": 17592186044416}])",
                    .cut_after = {}};
  });
  EXPECT_EQ(code_of_download(), Code::ResourceExhausted);
  EXPECT_THAT(message_, HasSubstr("disk full"));
  EXPECT_EQ(count_requests("/resolve/"), 0);
}

TEST_F(DownloadFaultTest, SymbolicLinkInPlaceOfThePartIsNotFollowed) {
  const std::string victim = home_.write("victim", "precious");
  fs::create_directories(store("o/n"));
  fs::create_symlink(victim, part_path());
  EXPECT_EQ(code_of_download(), Code::ResourceExhausted);
  EXPECT_EQ(read_file(victim), "precious");
}

TEST_F(DownloadFaultTest, TwoDownloadsOfOneRepositoryShareTheWork) {
  for_weights([this](const HubRequest& r, int) -> std::optional<HubReply> {
    HubReply reply = server_.answer(r);
    reply.chunk_delay_ms = 2;
    return reply;
  });
  std::thread other([this] { EXPECT_EQ(download_model("o/n", options_), store("o/n")); });
  EXPECT_EQ(download_model("o/n", options_), store("o/n"));
  other.join();
  EXPECT_EQ(attempts_, 1);
  EXPECT_TRUE(is_complete_snapshot(store("o/n")));
}

}  // namespace
}  // namespace mlxcel::io

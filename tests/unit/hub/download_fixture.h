// A hub with one small repository, and helpers to look at what came of a download.
#pragma once

#include <gmock/gmock.h>

#include <string>

#include "base/error.h"
#include "base/file.h"
#include "hub_fixture.h"

namespace mlxcel::io {

class DownloadTest : public HubTest {
 protected:
  DownloadTest() { use(server_); }
  void use(const testing::HubServer& server) { set("HF_ENDPOINT", server.url()); }

  static std::string weights() {
    std::string data(300'000, '\0');
    uint32_t x = 1;
    for (char& c : data) {
      x = x * 1664525U + 1013904223U;
      c = static_cast<char>(x >> 24);
    }
    return data;
  }
  static testing::HubRepo repo() {
    testing::HubRepo r;
    r.files["config.json"] = {.content = R"({"model_type": "llama"})"};
    r.files["tokenizer.json"] = {.content = "{}"};
    r.files["model.safetensors"] = {.content = weights(), .lfs = true};
    r.files["README.md"] = {.content = "# readme"};
    r.files["modeling.py"] = {.content = "import os"};
    return r;
  }
  /// The code of the error that the download ends in; message_ keeps its text.
  Code code_of_download(const std::string& repo_id = "o/n") {
    try {
      download_model(repo_id, options_);
    } catch (const Error& e) {
      message_ = e.message();
      return e.code();
    }
    ADD_FAILURE() << "the download succeeded";
    return Code::Internal;
  }
  int count_requests(const std::string& part) const {
    int n = 0;
    for (const auto& request : server_.requests()) {
      n += request.path.find(part) != std::string::npos ? 1 : 0;
    }
    return n;
  }
  /// Names of everything below `dir`, hidden files included.
  static std::vector<std::string> files_in(const std::string& dir) {
    std::vector<std::string> names;
    for (const auto& e : std::filesystem::recursive_directory_iterator(dir)) {
      if (e.is_regular_file()) {
        names.push_back(std::filesystem::relative(e.path(), dir).string());
      }
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  testing::HubServer server_;
  std::string message_;
};

}  // namespace mlxcel::io

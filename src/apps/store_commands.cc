// list, rm and download: what is on this machine and what should be.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "apps/commands.h"
#include "base/error.h"
#include "base/json.h"
#include "io/download_progress.h"
#include "io/hub.h"

namespace mlxcel::apps {
namespace {

std::string local_time(int64_t unix_seconds) {
  if (unix_seconds <= 0) return "-";
  const auto t = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  if (::localtime_r(&t, &parts) == nullptr) return "-";
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts));
}

void sort_models(std::vector<io::StoredModel>& models, const std::string& order) {
  const auto by = [&](auto key) {
    std::sort(models.begin(), models.end(), [&](const auto& a, const auto& b) {
      return key(a) != key(b) ? key(a) > key(b) : a.repo_id < b.repo_id;
    });
  };
  if (order == "size") by([](const io::StoredModel& m) { return m.size_bytes; });
  if (order == "modified") by([](const io::StoredModel& m) { return m.modified_unix; });
}

void print_json(const std::vector<io::StoredModel>& models) {
  Json list = Json::array();
  for (const io::StoredModel& m : models) {
    Json entry = Json::object();
    entry.set("repo_id", m.repo_id);
    entry.set("size_bytes", m.size_bytes);
    entry.set("path", m.path);
    entry.set("modified", m.modified_unix > 0 ? Json(m.modified_unix) : Json());
    list.push_back(std::move(entry));
  }
  fmt::print("{}\n", list.dump(2));
}

void print_table(const std::vector<io::StoredModel>& models, bool paths) {
  size_t width = 7;
  for (const io::StoredModel& m : models) width = std::max(width, m.repo_id.size());
  fmt::print("{:<{}}  {:>10}  {:<16}{}\n", "REPO ID", width, "SIZE", "MODIFIED",
             paths ? "  PATH" : "");
  for (const io::StoredModel& m : models) {
    fmt::print("{:<{}}  {:>10}  {:<16}{}\n", m.repo_id, width,
               io::human_size(static_cast<uint64_t>(m.size_bytes)), local_time(m.modified_unix),
               paths ? "  " + m.path : std::string());
  }
}

/// Reads one line of the answer; anything but y or yes is no.
bool confirm(const std::string& question) {
  fmt::print(stderr, "{} [y/N] ", question);
  std::fflush(stderr);
  std::string answer;
  for (int c = std::getchar(); c != EOF && c != '\n'; c = std::getchar()) {
    if (answer.size() < 16) answer += static_cast<char>(c);
  }
  return answer == "y" || answer == "Y" || answer == "yes" || answer == "Yes" || answer == "YES";
}

}  // namespace

int list_models(const ListArguments& arguments) {
  io::HubOptions hub;
  hub.models_dir = arguments.models_dir;
  std::vector<io::StoredModel> models = io::list_store(hub);
  sort_models(models, arguments.sort);
  if (arguments.json) {
    print_json(models);
  } else if (arguments.quiet) {
    for (const io::StoredModel& m : models) fmt::print("{}\n", m.repo_id);
  } else if (models.empty()) {
    fmt::print("No models in {}.\n", io::store_root(hub));
  } else {
    print_table(models, arguments.verbose);
  }
  return 0;
}

int remove_model(const RemoveArguments& arguments) {
  const auto stored = io::find_in_store(arguments.repo_id, arguments.hub);
  if (!stored) {
    const auto cached = io::find_in_hf_cache(arguments.repo_id, arguments.hub.revision);
    if (cached) {
      throw Error(
          Code::NotFound,
          fmt::format("{} is only in the Hugging Face cache ({}), which is not changed from "
                      "here",
                      arguments.repo_id, *cached));
    }
    throw Error(Code::NotFound, fmt::format("{} is not in the store {}", arguments.repo_id,
                                            io::store_root(arguments.hub)));
  }
  const std::string size = io::human_size(static_cast<uint64_t>(stored->size_bytes));
  if (!arguments.yes &&
      !confirm(fmt::format("Remove {} ({}) from {}?", arguments.repo_id, size, stored->path))) {
    fmt::print(stderr, "Nothing was removed.\n");
    return 1;
  }
  io::remove_from_store(arguments.repo_id, arguments.hub);
  fmt::print("Removed {} ({}).\n", arguments.repo_id, size);
  return 0;
}

int download(const DownloadArguments& arguments) {
  const io::HubOptions& hub = arguments.hub;
  if (hub.local_dir.empty() && hub.file.empty() && !hub.force) {
    if (const auto cached = io::find_in_hf_cache(arguments.repo_id, hub.revision)) {
      fmt::print(stderr, "{} is in the Hugging Face cache already.\n", arguments.repo_id);
      fmt::print("{}\n", *cached);
      return 0;
    }
  }
  fmt::print("{}\n", io::download_model(arguments.repo_id, hub));
  return 0;
}

}  // namespace mlxcel::apps

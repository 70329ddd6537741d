#include "io/store.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "base/env.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "io/hub.h"

namespace mlxcel::io {
namespace fs = std::filesystem;
namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";

uint64_t file_size_or_zero(const fs::path& path) {
  std::error_code ec;
  if (!fs::is_regular_file(path, ec)) return 0;
  const uintmax_t size = fs::file_size(path, ec);
  return ec ? 0 : size;
}

/// Every shard that the index names is there and not empty. An unreadable index counts as not
/// complete; the loader explains what is wrong with it.
bool index_is_complete(const std::string& dir) {
  const std::string text = read_file(dir + "/" + kIndexName, uint64_t{64} << 20);
  const Result<Json> index = Json::parse(text);
  if (!index.ok()) return false;
  const Json* map = index.value().find("weight_map");
  if (map == nullptr || !map->is_object() || map->size() == 0) return false;
  return std::all_of(map->as_object().begin(), map->as_object().end(), [&](const auto& entry) {
    return entry.second.is_string() &&
           file_size_or_zero(fs::path(dir) / entry.second.as_string()) > 0;
  });
}

std::vector<std::string> files_ending(const std::string& dir, std::string_view suffix) {
  std::vector<std::string> names;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(dir, ec)) {
    std::string name = entry.path().filename().string();
    if (name.ends_with(suffix) && file_size_or_zero(entry.path()) > 0) {
      names.push_back(std::move(name));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

StoredModel describe(const std::string& repo_id, const fs::path& dir) {
  StoredModel model{.repo_id = repo_id, .path = dir.string()};
  std::error_code ec;
  fs::recursive_directory_iterator it(dir, fs::directory_options::skip_permission_denied, ec);
  for (; !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    struct stat st{};
    if (::lstat(it->path().c_str(), &st) != 0 || !S_ISREG(st.st_mode)) continue;
    model.size_bytes += st.st_size;
    model.modified_unix = std::max<int64_t>(model.modified_unix, st.st_mtime);
  }
  return model;
}

std::vector<fs::path> subdirectories(const fs::path& dir) {
  std::vector<fs::path> out;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(dir, ec)) {
    std::error_code ignored;
    if (entry.is_directory(ignored)) out.push_back(entry.path());
  }
  return out;
}

}  // namespace

std::string home_directory(const char* alternative) {
  const auto home = env::get("HOME");
  if (!home) {
    throw Error(Code::InvalidArgument,
                fmt::format("HOME is not set: set it, or set {}", alternative));
  }
  return *home;
}

std::string store_root(const HubOptions& options) {
  if (!options.models_dir.empty()) return options.models_dir;
  if (const auto dir = env::get("MLXCEL_MODELS_DIR")) return *dir;
  if (const auto cache = env::get("MLXCEL_CACHE_DIR")) return *cache + "/models";
  return home_directory("MLXCEL_MODELS_DIR") + "/.cache/mlxcel/models";
}

std::string store_path(const std::string& root, const std::string& repo_id) {
  if (!is_repo_id(repo_id)) {
    throw Error(Code::InvalidArgument,
                fmt::format("'{}' is no repository id; expected owner/name, for example "
                            "mlx-community/Qwen3-4B-4bit",
                            repo_id));
  }
  return root + "/" + repo_id;
}

std::vector<std::string> gguf_files(const std::string& dir) { return files_ending(dir, ".gguf"); }

bool has_safetensors(const std::string& dir) {
  return file_exists(dir + "/" + kIndexName) || !files_ending(dir, ".safetensors").empty();
}

bool is_complete_snapshot(const std::string& dir) {
  if (!is_directory(dir) || file_exists(dir + "/" + kIncompleteMarker)) return false;
  if (!file_exists(dir + "/config.json")) return !gguf_files(dir).empty();
  if (file_exists(dir + "/" + kIndexName)) return index_is_complete(dir);
  return has_safetensors(dir) || !gguf_files(dir).empty();
}

std::vector<StoredModel> list_store(const HubOptions& options) {
  std::vector<StoredModel> models;
  for (const fs::path& owner : subdirectories(store_root(options))) {
    for (const fs::path& dir : subdirectories(owner)) {
      const std::string repo_id = owner.filename().string() + "/" + dir.filename().string();
      if (is_repo_id(repo_id) && is_complete_snapshot(dir.string())) {
        models.push_back(describe(repo_id, dir));
      }
    }
  }
  std::sort(models.begin(), models.end(),
            [](const auto& a, const auto& b) { return a.repo_id < b.repo_id; });
  return models;
}

std::optional<StoredModel> find_in_store(const std::string& repo_id, const HubOptions& options) {
  const std::string path = store_path(store_root(options), repo_id);
  if (!is_directory(path)) return std::nullopt;
  return describe(repo_id, path);
}

void remove_from_store(const std::string& repo_id, const HubOptions& options) {
  const std::string root = store_root(options);
  const fs::path path = store_path(root, repo_id);
  if (!is_directory(path.string())) {
    throw Error(Code::NotFound, fmt::format("{} is not in the store {}", repo_id, root));
  }
  const fs::path real_owner = fs::canonical(path.parent_path());
  const fs::path expected = fs::canonical(root) / path.parent_path().filename();
  if (real_owner != expected || fs::is_symlink(path)) {
    throw Error(Code::InvalidArgument,
                fmt::format("{} leads out of the store {} through a symbolic link; it is not "
                            "removed",
                            path.string(), root));
  }
  std::error_code ec;
  fs::remove_all(path, ec);
  if (ec) {
    throw Error(Code::Internal, fmt::format("cannot remove {}: {}", path.string(), ec.message()));
  }
  fs::remove(path.parent_path(), ec);  // the owner's folder, when that was its last model
}

}  // namespace mlxcel::io

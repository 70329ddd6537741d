#include "io/store.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
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

/// Every shard that the index names is there and not empty, or none of them is although there are
/// weights: then the index is stale (repackaged models often keep the old one). An unreadable index
/// counts as not complete; the loader explains what is wrong with it.
bool index_is_complete(const std::string& dir) {
  const std::string text = read_file(dir + "/" + kIndexName, uint64_t{64} << 20);
  const Result<Json> index = Json::parse(text);
  if (!index.ok()) return false;
  const Json* map = index.value().find("weight_map");
  if (map == nullptr || !map->is_object() || map->size() == 0) return false;
  size_t present = 0;
  for (const auto& [tensor, file] : map->as_object()) {
    if (!file.is_string()) return false;
    present += file_size_or_zero(fs::path(dir) / file.as_string()) > 0 ? 1 : 0;
  }
  return present == map->size() || (present == 0 && !files_ending(dir, ".safetensors").empty());
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

std::vector<std::string> gguf_parts(const std::string& name) {
  constexpr std::string_view kTail = "-00001-of-00003.gguf";
  constexpr int kMaxParts = 10'000;
  if (name.size() < kTail.size()) return {name};
  const std::string stem = name.substr(0, name.size() - kTail.size());
  const std::string_view tail = std::string_view(name).substr(stem.size());
  int part = 0;
  int count = 0;
  const auto number = [&](size_t at, int& out) {
    const auto [end, ec] = std::from_chars(tail.data() + at, tail.data() + at + 5, out);
    return ec == std::errc() && end == tail.data() + at + 5;
  };
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !tail.ends_with(".gguf") ||
      !number(1, part) || !number(10, count) || count < 1 || count > kMaxParts) {
    return {name};
  }
  if (part != 1) return {};
  std::vector<std::string> names;
  for (int i = 1; i <= count; ++i) {
    names.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", stem, i, count));
  }
  return names;
}

bool has_gguf(const std::string& dir, const std::string& name) {
  const std::vector<std::string> parts = gguf_parts(name);
  return !parts.empty() && std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return file_size_or_zero(fs::path(dir) / part) > 0;
  });
}

std::vector<std::string> gguf_models(const std::string& dir) {
  std::vector<std::string> names = files_ending(dir, ".gguf");
  std::erase_if(names, [&](const std::string& name) { return !has_gguf(dir, name); });
  return names;
}

bool has_safetensors(const std::string& dir) {
  return file_exists(dir + "/" + kIndexName) || !files_ending(dir, ".safetensors").empty();
}

bool is_complete_snapshot(const std::string& dir) {
  if (!is_directory(dir) || file_exists(dir + "/" + kIncompleteMarker)) return false;
  if (!file_exists(dir + "/config.json")) return !gguf_models(dir).empty();
  if (file_exists(dir + "/" + kIndexName)) return index_is_complete(dir);
  return has_safetensors(dir) || !gguf_models(dir).empty();
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

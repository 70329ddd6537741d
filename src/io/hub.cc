#include "io/hub.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/env.h"
#include "base/error.h"
#include "base/file.h"
#include "io/hub_names.h"
#include "io/store.h"

namespace mlxcel::io {
namespace fs = std::filesystem;
namespace {

std::string hf_cache_root() {
  if (const auto dir = env::get("HF_HUB_CACHE")) return *dir;
  if (const auto home = env::get("HF_HOME")) return *home + "/hub";
  return home_directory("HF_HUB_CACHE") + "/.cache/huggingface/hub";
}

bool is_commit(std::string_view text) {
  return text.size() >= 7 && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

/// The snapshot folder that `revision` names in the Hugging Face cache, existing or not; empty when
/// the cache does not know the revision.
std::string hf_snapshot(const std::string& repo_id, const std::string& revision) {
  const size_t slash = repo_id.find('/');
  const std::string repo = fmt::format("{}/models--{}--{}", hf_cache_root(),
                                       repo_id.substr(0, slash), repo_id.substr(slash + 1));
  const std::string wanted = revision.empty() ? "main" : revision;
  const std::string ref = repo + "/refs/" + wanted;
  if (file_exists(ref)) {
    std::string commit = read_file(ref, 1024);
    while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r')) commit.pop_back();
    if (is_commit(commit)) return repo + "/snapshots/" + commit;
  }
  return is_commit(wanted) ? repo + "/snapshots/" + wanted : std::string();
}

void refuse_later_part(const std::string& name) {
  if (!gguf_parts(name).empty()) return;
  throw Error(Code::InvalidArgument,
              fmt::format("{} is a later part of a split GGUF model; name the first part", name));
}

/// A folder whose only weights are GGUF files stands for the one file in it.
std::string weights_location(const std::string& dir) {
  if (has_safetensors(dir)) return dir;
  const std::vector<std::string> names = gguf_models(dir);
  if (names.empty()) return dir;
  if (names.size() == 1) return dir + "/" + names[0];
  std::string list;
  for (const std::string& name : names) list += "\n  " + name;
  throw Error(Code::InvalidArgument,
              fmt::format("{} holds several GGUF models; choose one with --hf-file, or give its "
                          "path:{}",
                          dir, list));
}

Resolved existing_path(const std::string& model, const HubOptions& options) {
  if (!options.revision.empty()) {
    throw Error(Code::InvalidArgument,
                fmt::format("--revision applies to repositories, and {} is a local path", model));
  }
  if (!is_directory(model)) {
    if (!options.file.empty()) {
      throw Error(
          Code::InvalidArgument,
          fmt::format("--hf-file applies to repositories and folders, and {} is a file", model));
    }
    refuse_later_part(model);
    return {model, {}};
  }
  if (file_exists(model + "/" + kIncompleteMarker)) {
    throw Error(
        Code::NotFound,
        fmt::format("the download into {} was not finished; run 'mlxcel download' again", model));
  }
  if (options.file.empty()) return {weights_location(model), {}};
  check_repo_file_name(options.file, model);
  const std::string path = model + "/" + options.file;
  if (file_exists(path)) return {path, {}};
  throw Error(Code::NotFound, fmt::format("{} has no file {}", model, options.file));
}

/// What `dir` offers for the request: the folder, or the one file of --hf-file.
std::optional<std::string> take_from(const std::string& dir, const HubOptions& options) {
  if (dir.empty()) return std::nullopt;
  if (options.file.empty()) {
    return is_complete_snapshot(dir) ? std::optional(weights_location(dir)) : std::nullopt;
  }
  if (!has_gguf(dir, options.file)) return std::nullopt;
  return dir + "/" + options.file;
}

Resolved resolve_repository(const std::string& repo_id, const HubOptions& options) {
  const std::string base = repo_id.substr(repo_id.find('/') + 1);
  const std::string stored = store_path(store_root(options), repo_id);
  const bool pinned = !options.revision.empty();
  if (pinned) check_revision(options.revision);
  if (!options.file.empty()) {
    check_repo_file_name(options.file, repo_id);
    refuse_later_part(options.file);
  }

  std::vector<std::string> tried;
  const auto look = [&](const std::string& dir, const char* what) -> std::optional<std::string> {
    tried.push_back(fmt::format("{}{}", what, dir.empty() ? "" : ": " + dir));
    return take_from(dir, options);
  };
  std::optional<std::string> found;
  if (!pinned) found = look("./models/" + base, "local folder");
  if (!found) found = look(hf_snapshot(repo_id, options.revision), "Hugging Face cache");
  if (!found && !pinned) found = look(stored, "store");
  if (found) return {*found, repo_id};

  const bool offline = options.offline || env::get_bool("LLAMA_ARG_OFFLINE").value_or(false);
  if (offline) {
    std::string list;
    for (const std::string& place : tried) list += "\n  " + place;
    throw Error(Code::NotFound, fmt::format("{} is not on this machine and --offline forbids "
                                            "downloading it; looked in:{}",
                                            repo_id, list));
  }
  const std::string path = download_model(repo_id, options);
  return {options.file.empty() ? weights_location(path) : path, repo_id};
}

}  // namespace

std::optional<std::string> find_in_hf_cache(const std::string& repo_id,
                                            const std::string& revision) {
  if (!is_repo_id(repo_id)) return std::nullopt;
  if (!revision.empty()) check_revision(revision);
  std::string dir = hf_snapshot(repo_id, revision);
  if (dir.empty() || !is_complete_snapshot(dir)) return std::nullopt;
  return dir;
}

Resolved resolve_model(const std::string& model, const HubOptions& options) {
  if (model.empty()) throw Error(Code::InvalidArgument, "the model name is empty");
  std::error_code ec;
  if (fs::exists(model, ec)) return existing_path(model, options);
  if (model.find("://") != std::string::npos) {
    throw Error(Code::Unsupported,
                fmt::format("'{}' is a URL; give a path or a repository such as owner/name",
                            url_for_messages(model)));
  }
  if (is_repo_id(model)) return resolve_repository(model, options);
  if (model.find('/') == std::string::npos && model != "." && model != ".." &&
      is_repo_id("x/" + model)) {
    const std::string repo_id = with_default_org(model);
    if (!options.quiet) fmt::print(stderr, "Model '{}' is taken as '{}'.\n", model, repo_id);
    return resolve_repository(repo_id, options);
  }
  throw Error(Code::NotFound,
              fmt::format("there is no file or folder '{}', and it is no repository id "
                          "(owner/name) either",
                          model));
}

}  // namespace mlxcel::io

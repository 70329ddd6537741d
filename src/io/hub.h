// Finding a model on this machine and fetching it from a Hugging Face hub.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcel::io {

struct HubOptions {
  std::string models_dir;    // --models-dir; empty: MLXCEL_MODELS_DIR, $MLXCEL_CACHE_DIR/models,
                             // ~/.cache/mlxcel/models
  std::string revision;      // --revision; empty = main
  std::string token;         // --token; empty: HF_TOKEN, HUGGING_FACE_HUB_TOKEN. Never logged.
  std::string file;          // --hf-file: one GGUF file of a repository
  std::string local_dir;     // --local-dir of download: the snapshot goes exactly here
  bool offline = false;      // LLAMA_ARG_OFFLINE means the same
  bool force = false;        // download again
  bool quiet = false;        // no progress bar, no notes
  int max_retries = 4;       // after a refused or broken transfer that brought nothing new
  int retry_delay_ms = 500;  // before the first retry; doubles each time
};

struct Resolved {
  std::string path;     // directory or .gguf file
  std::string repo_id;  // empty for a plain path
};

/// The store root in force. Throws InvalidArgument when neither a root nor HOME is set.
std::string store_root(const HubOptions& options);

/// "owner/name" with letters, digits, '.', '_' and '-', neither part being "." or "..".
bool is_repo_id(std::string_view text);

/// Resolution order of engine.md section 17: existing path; ./models/<name>, Hugging Face cache,
/// store; else download. A name without a slash gets the owner MLXCEL_DEFAULT_ORG (mlx-community);
/// the expansion is printed to stderr. A directory whose only weights are one .gguf file resolves
/// to that file. Throws NotFound with what was tried, InvalidArgument for a revision that cannot
/// apply, and what download_model throws.
Resolved resolve_model(const std::string& model, const HubOptions& options);

/// Downloads a repository snapshot into the store, or into options.local_dir (resume, SHA-256,
/// parallel files, atomic renames); returns its directory, or the path of options.file when one
/// file is asked for. What is complete already is not fetched again unless options.force. Throws
/// NotFound (no such repository, revision or file), InvalidArgument (no access, store occupied by
/// another revision, hostile file name), Corrupt (digest), ResourceExhausted (disk), Deadline (hub
/// not reachable after the retries).
std::string download_model(const std::string& repo_id, const HubOptions& options);

/// True when `dir` holds config.json and every shard that its index names, or one non-empty
/// *.safetensors or *.gguf file, and no unfinished download.
bool is_complete_snapshot(const std::string& dir);

/// The snapshot directory of a repository in the Hugging Face cache (HF_HUB_CACHE, HF_HOME/hub,
/// ~/.cache/huggingface/hub), when it is complete there. An empty revision means main.
std::optional<std::string> find_in_hf_cache(const std::string& repo_id,
                                            const std::string& revision);

struct StoredModel {
  std::string repo_id, path;
  int64_t size_bytes = 0;
  int64_t modified_unix = 0;  // newest file; 0 when unknown
  bool in_hf_cache = false;
};
/// Complete models in the store, by repo_id.
std::vector<StoredModel> list_store(const HubOptions& options);
/// The store's directory of a repository, complete or not; nothing when there is none.
std::optional<StoredModel> find_in_store(const std::string& repo_id, const HubOptions& options);
/// Deletes the store's directory of a repository. Throws NotFound when there is none and
/// InvalidArgument when it does not lie below the store root (a symbolic link leads away).
void remove_from_store(const std::string& repo_id, const HubOptions& options);

}  // namespace mlxcel::io

// Finding a model on this machine and fetching it from a Hugging Face hub.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mlxcel::io {

struct HubOptions {
  std::string models_dir;  // --models-dir; empty: MLXCEL_MODELS_DIR, $MLXCEL_CACHE_DIR/models,
                           // ~/.cache/mlxcel/models
  std::string revision;    // --revision; empty = main
  std::string token;       // --token; empty: HF_TOKEN, HUGGING_FACE_HUB_TOKEN. Never logged.
  std::string file;        // --hf-file: one GGUF file of a repository
  bool offline = false;
  bool force = false;  // download again
  bool quiet = false;  // no progress bar, no notes
};

struct Resolved {
  std::string path;     // directory or .gguf file
  std::string repo_id;  // empty for a plain path
};

/// The store root in force.
std::string store_root(const HubOptions& options);
/// Resolution order of engine.md section 17: existing path; ./models/<name>, Hugging Face cache,
/// store; else download. Throws NotFound with what was tried.
Resolved resolve_model(const std::string& model, const HubOptions& options);
/// Downloads a repository snapshot into the store (resume, SHA-256, parallel files, atomic
/// renames); returns its path.
std::string download_model(const std::string& repo_id, const HubOptions& options);

struct StoredModel {
  std::string repo_id, path;
  int64_t size_bytes = 0;
  int64_t modified_unix = 0;
  bool in_hf_cache = false;
};
/// Complete models in the store.
std::vector<StoredModel> list_store(const HubOptions& options);

}  // namespace mlxcel::io

// The layout of model folders on disk, shared by resolution, download and listing.
#pragma once

#include <string>
#include <vector>

namespace mlxcel::io {

/// Present in a folder from the first byte of a download to its end; such a folder is not complete.
inline constexpr const char* kIncompleteMarker = ".mlxcel-incomplete";

/// $HOME, or an error that names what else can be set.
std::string home_directory(const char* alternative);

/// "<root>/<owner>/<name>"; throws InvalidArgument when repo_id is none.
std::string store_path(const std::string& root, const std::string& repo_id);

/// Names of the non-empty *.gguf files directly in `dir`, sorted.
std::vector<std::string> gguf_files(const std::string& dir);

/// True when `dir` has SafeTensors weights of its own (an index or a *.safetensors file).
bool has_safetensors(const std::string& dir);

}  // namespace mlxcel::io

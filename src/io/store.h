// The layout of model folders on disk, shared by resolution, download and listing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcel::io {

/// Present in a folder from the first byte of a download to its end; such a folder is not complete.
inline constexpr const char* kIncompleteMarker = ".mlxcel-incomplete";

/// $HOME, or an error that names what else can be set.
std::string home_directory(const char* alternative);

/// "<root>/<owner>/<name>"; throws InvalidArgument when repo_id is none.
std::string store_path(const std::string& root, const std::string& repo_id);

/// Names of the GGUF models directly in `dir`, sorted: files that are not empty, and of a split
/// model the first part when all parts are there.
std::vector<std::string> gguf_models(const std::string& dir);

/// The files of the model that `name` stands for: itself, or all parts when it is the first part of
/// a split one ("x-00001-of-00003.gguf"); nothing for a later part.
std::vector<std::string> gguf_parts(const std::string& name);

/// True when every file of gguf_parts(name) is in `dir` and not empty.
bool has_gguf(const std::string& dir, const std::string& name);

/// True when `dir` has SafeTensors weights of its own (an index or a *.safetensors file).
bool has_safetensors(const std::string& dir);

}  // namespace mlxcel::io

// Whole-file reading and atomic writing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mlxcel {

/// The whole file. Throws NotFound when it cannot be opened, ResourceExhausted above `max_bytes`.
std::string read_file(const std::string& path, uint64_t max_bytes = uint64_t{1} << 30);
/// Writes beside `path` and renames, so that a reader never sees half a file. Throws on any
/// failure.
void write_file_atomic(const std::string& path, std::string_view data);
bool file_exists(const std::string& path);
bool is_directory(const std::string& path);

}  // namespace mlxcel

// Sends the log to a file instead of standard error.
#pragma once

#include <string>

namespace mlxcel::log {

/// Appends to `path`, which is created for its owner alone (mode 0600). Throws InvalidArgument for
/// a symbolic link, a folder or anything else that is no plain file, and for a missing folder.
void write_to_file(const std::string& path);

}  // namespace mlxcel::log

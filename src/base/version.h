// What this binary was built from. The number comes from the file VERSION, the rest from the build.
#pragma once

#include <string_view>

namespace mlxcel {

/// The release number, "0.1.0".
std::string_view version();
/// The CMake build type, "Release".
std::string_view build_type();
/// Compiler and its version, "GNU 12.2.0".
std::string_view compiler();
/// Twelve digits of the commit, with "-dirty" when tracked files had changes at build time;
/// "unknown" outside a git checkout. Defined in the library `mlxcel_version` (link it to use this),
/// so that a commit relinks the programs that print it and nothing else.
std::string_view commit();

}  // namespace mlxcel

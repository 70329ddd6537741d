#include "base/version.h"

namespace mlxcel {

std::string_view version() { return MLXCEL_VERSION_STRING; }
std::string_view build_type() { return MLXCEL_BUILD_TYPE; }
std::string_view compiler() { return MLXCEL_COMPILER; }

}  // namespace mlxcel

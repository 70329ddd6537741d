#include "testing/paths.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace mlxcel::testing {

std::string data_path(const std::string& relative) {
  return std::string(MLXCEL_SOURCE_DIR) + "/tests/data/" + relative;
}

std::string shared_path(const std::string& relative) {
  const char* root = std::getenv("MLXCEL_SHARED_DATA");
  const std::string base =
      root != nullptr ? root : std::string(MLXCEL_SOURCE_DIR) + "/../shared/data";
  const std::string path = base + "/" + relative;
  return std::filesystem::exists(path) ? path : std::string();
}

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "mlxcel-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    throw std::runtime_error("cannot create a temporary folder");
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::write(const std::string& name, const std::string& content) const {
  const std::string path = file(name);
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

}  // namespace mlxcel::testing

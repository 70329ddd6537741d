// Fixture paths and temporary folders for tests.
#pragma once

#include <string>

namespace mlxcel::testing {

/// Absolute path below tests/data.
std::string data_path(const std::string& relative);
/// Absolute path below the shared test data (../shared/data beside the repository or
/// MLXCEL_SHARED_DATA); empty when it is not there, in which case the caller skips.
std::string shared_path(const std::string& relative);

/// A fresh folder that is removed with everything in it at the end of the scope.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// Writes a file inside and returns its path.
  std::string write(const std::string& name, const std::string& content) const;

 private:
  std::string path_;
};

}  // namespace mlxcel::testing

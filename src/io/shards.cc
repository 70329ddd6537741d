#include "io/shards.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "io/quoted_name.h"

namespace mlxcel::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr uint64_t kMaxIndexBytes = uint64_t{256} << 20;

// Names of regular files (or links to some) in the directory, sorted; broken links are reported.
std::vector<std::string> file_names(const std::string& directory) {
  std::vector<std::string> out;
  std::error_code error;
  fs::directory_iterator it(directory, error);
  if (error) {
    throw Error(Code::NotFound,
                fmt::format("cannot read the directory {}: {}", directory, error.message()));
  }
  for (; it != fs::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code status_error;
    const fs::file_status status = it->status(status_error);
    if (fs::is_regular_file(status)) {
      out.push_back(name);
    } else if (!fs::exists(status) && (name.ends_with(".safetensors") || name.ends_with(".gguf"))) {
      log::warn("{}/{} is a broken link and is skipped", directory, name);
    }
  }
  if (error) {
    throw Error(Code::NotFound,
                fmt::format("cannot read the directory {}: {}", directory, error.message()));
  }
  std::ranges::sort(out);
  return out;
}

// The files that the index names; empty without an index.
std::set<std::string> indexed_files(const std::string& directory) {
  const std::string path = fmt::format("{}/{}", directory, kIndex);
  std::set<std::string> out;
  if (!file_exists(path)) return out;
  const auto parsed = Json::parse(read_file(path, kMaxIndexBytes), {.allow_nonfinite = true});
  if (!parsed) {
    throw Error(Code::Corrupt,
                fmt::format("{} is not valid JSON: {}", path, parsed.error().message()));
  }
  const Json* map = parsed.value().find("weight_map");
  if (map == nullptr || !map->is_object()) {
    throw Error(Code::Corrupt, fmt::format("{}: the object \"weight_map\" is missing", path));
  }
  for (const auto& [tensor, file] : map->as_object()) {
    const bool plain =
        file.is_string() && !file.as_string().empty() &&
        file.as_string().find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain) {
      throw Error(Code::Corrupt, fmt::format("{}: tensor {} does not name a file of this directory",
                                             path, quote(tensor)));
    }
    out.insert(file.as_string());
  }
  return out;
}

bool is_second_copy(std::string_view name) {
  return name.starts_with("consolidated") || name.starts_with("adapter");
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + quote(name);
  return out;
}

std::vector<std::string> in_directory(const std::string& directory,
                                      const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string& name : names) out.push_back(fmt::format("{}/{}", directory, name));
  return out;
}

// Parts of a split model count as one, by their first.
std::string only_gguf(const std::string& directory, const std::vector<std::string>& names) {
  std::vector<std::string> models;
  for (const std::string& name : names) {
    const size_t of = name.rfind("-of-");
    const bool later_part = of != std::string::npos && of >= 6 && name.size() == of + 14 &&
                            name[of - 6] == '-' && name.substr(of - 5, 5) != "00001";
    if (name.ends_with(".gguf") && !later_part) models.push_back(name);
  }
  if (models.empty()) return {};
  if (models.size() > 1) {
    throw Error(Code::InvalidArgument, fmt::format("{} holds several GGUF models; name one: {}",
                                                   directory, joined(models)));
  }
  return fmt::format("{}/{}", directory, models.front());
}

}  // namespace

WeightFiles find_weight_files(const std::string& directory) {
  const std::vector<std::string> names = file_names(directory);
  std::vector<std::string> present;
  for (const std::string& name : names) {
    if (name.ends_with(".safetensors")) present.push_back(name);
  }
  const std::set<std::string> indexed = indexed_files(directory);
  std::vector<std::string> absent;
  for (const std::string& name : indexed) {
    if (!std::ranges::binary_search(names, name)) absent.push_back(name);
  }
  if (!indexed.empty() && absent.empty()) {
    return {in_directory(directory, {indexed.begin(), indexed.end()}), {}};
  }
  if (!present.empty()) {
    if (!absent.empty()) {
      log::warn("{}/{} names files that are not there ({}); reading all SafeTensors files instead",
                directory, kIndex, joined(absent));
    }
    const bool any_first = std::ranges::any_of(present, [](auto& n) { return !is_second_copy(n); });
    if (any_first) std::erase_if(present, [](const auto& n) { return is_second_copy(n); });
    return {in_directory(directory, present), {}};
  }
  if (!absent.empty()) {
    throw Error(Code::NotFound, fmt::format("{}: weight files named by {} are missing: {}",
                                            directory, kIndex, joined(absent)));
  }
  std::string gguf = only_gguf(directory, names);
  if (!gguf.empty()) return {{}, std::move(gguf)};
  const bool torch = std::ranges::any_of(names, [](const std::string& n) {
    return n.ends_with(".bin") || n.ends_with(".pth") || n.ends_with(".pt");
  });
  throw Error(Code::NotFound,
              fmt::format("{} holds no weights: neither *.safetensors nor *.gguf{}", directory,
                          torch ? " (PyTorch files cannot be read; convert them to "
                                  "SafeTensors)"
                                : ""));
}

}  // namespace mlxcel::io

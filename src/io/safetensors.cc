#include "io/safetensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "io/quoted_name.h"
#include "io/safetensors_header.h"

namespace mlxcel::io {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read without byte swapping");

constexpr uint64_t kLengthBytes = 8;

Error corrupt(const std::string& path, const std::string& what) {
  return {Code::Corrupt, fmt::format("{}: {}", path, what)};
}

std::string_view header_text(const MappedFile& file) {
  if (file.size() < kLengthBytes) {
    throw corrupt(file.path(), fmt::format("truncated: {} bytes are too few for a SafeTensors file",
                                           file.size()));
  }
  uint64_t length = 0;
  std::memcpy(&length, file.view(0, kLengthBytes).data(), sizeof length);
  if (length > SafetensorsFile::kMaxHeaderBytes) {
    throw corrupt(file.path(),
                  fmt::format("a header of {} bytes exceeds the limit of {}; is this a "
                              "SafeTensors file?",
                              length, SafetensorsFile::kMaxHeaderBytes));
  }
  if (length > file.size() - kLengthBytes) {
    throw corrupt(file.path(),
                  fmt::format("truncated: the header of {} bytes does not fit the file of {} bytes",
                              length, file.size()));
  }
  const auto bytes = file.view(kLengthBytes, length);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The data section must be covered exactly once, so that no byte is hidden or shared.
void check_layout(std::vector<SafetensorsEntry>& entries, uint64_t data_bytes,
                  const std::string& path) {
  std::ranges::sort(entries, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t end = 0;
  for (const SafetensorsEntry& e : entries) {
    if (e.end > data_bytes) {
      throw corrupt(path, fmt::format("truncated: tensor {} ends at byte {} of the data, but the "
                                      "file holds {}",
                                      quote(e.name), e.end, data_bytes));
    }
    if (e.begin < end) {
      throw corrupt(path, fmt::format("tensor {} at [{}, {}) overlaps the one before it, which "
                                      "ends at {}",
                                      quote(e.name), e.begin, e.end, end));
    }
    if (e.begin > end) {
      throw corrupt(path, fmt::format("a hole of {} bytes lies before tensor {}", e.begin - end,
                                      quote(e.name)));
    }
    end = e.end;
  }
  if (end != data_bytes) {
    throw corrupt(
        path, fmt::format("{} bytes after the last tensor belong to no tensor", data_bytes - end));
  }
}

}  // namespace

std::shared_ptr<const SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  std::shared_ptr<SafetensorsFile> out(new SafetensorsFile);
  out->file_ = MappedFile::open(path);
  const std::string_view json = header_text(*out->file_);
  SafetensorsHeader header = parse_safetensors_header(json, path);
  const uint64_t data_begin = kLengthBytes + json.size();
  check_layout(header.tensors, out->file_->size() - data_begin, path);
  if (header.odd_metadata) {
    log::warn("{}: values of __metadata__ that are not strings are ignored", path);
  }
  out->metadata_ = std::move(header.metadata);
  out->tensors_.reserve(header.tensors.size());
  for (SafetensorsEntry& e : header.tensors) {
    out->tensors_.push_back({std::move(e.name), e.dtype, std::move(e.dims),
                             out->file_->view(data_begin + e.begin, e.end - e.begin)});
  }
  return out;
}

}  // namespace mlxcel::io

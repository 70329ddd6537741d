#include "testing/safetensors_writer.h"

#include <fmt/core.h>

#include <cstring>

#include "base/file.h"
#include "base/json.h"

namespace mlxcel::testing {
namespace {

std::string_view tag(DType t) {
  static constexpr std::string_view kTags[] = {"F32", "F16", "BF16", "F8_E4M3", "F8_E5M2",
                                               "I8",  "U8",  "I16",  "U16",     "I32",
                                               "U32", "I64", "U64",  "F64",     "BOOL"};
  return kTags[static_cast<int>(t)];
}

}  // namespace

SafetensorsWriter& SafetensorsWriter::add(std::string name, DType dtype, std::vector<int64_t> dims,
                                          std::string bytes) {
  entries_.push_back({std::move(name), dtype, std::move(dims), std::move(bytes)});
  return *this;
}

SafetensorsWriter& SafetensorsWriter::add(std::string name, DType dtype, std::vector<int64_t> dims,
                                          std::span<const float> values) {
  std::string bytes(values.size() * static_cast<size_t>(size_of(dtype)), '\0');
  convert_from_f32(dtype, values.data(), bytes.data(), static_cast<int64_t>(values.size()));
  return add(std::move(name), dtype, std::move(dims), std::move(bytes));
}

SafetensorsWriter& SafetensorsWriter::add_u32(std::string name, std::vector<int64_t> dims,
                                              std::span<const uint32_t> values) {
  return add(std::move(name), DType::U32, std::move(dims),
             std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
}

SafetensorsWriter& SafetensorsWriter::metadata(std::string json) {
  metadata_ = std::move(json);
  return *this;
}

std::string SafetensorsWriter::bytes() const {
  std::string header = "{", data;
  if (!metadata_.empty()) header += "\"__metadata__\":" + metadata_;
  for (const Entry& e : entries_) {
    if (header.size() > 1) header += ",";
    append_json_string(header, e.name);
    header += fmt::format(":{{\"dtype\":\"{}\",\"shape\":[", tag(e.dtype));
    for (size_t i = 0; i < e.dims.size(); ++i) {
      header += fmt::format("{}{}", i > 0 ? "," : "", e.dims[i]);
    }
    header +=
        fmt::format("],\"data_offsets\":[{},{}]}}", data.size(), data.size() + e.bytes.size());
    data += e.bytes;
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  return raw(header, data);
}

void SafetensorsWriter::write(const std::string& path) const { write_file_atomic(path, bytes()); }

std::string SafetensorsWriter::raw(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + header + data;
}

}  // namespace mlxcel::testing

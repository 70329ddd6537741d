#include "testing/gguf_writer.h"

#include <cstring>

#include "base/file.h"

namespace mlxcel::testing {
namespace {

template <class T>
std::string raw_bytes(T value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

std::string text(std::string_view value) {
  return raw_bytes<uint64_t>(value.size()) + std::string(value);
}

template <class T>
std::string list(uint32_t type, std::span<const T> values) {
  return raw_bytes(type) + raw_bytes<uint64_t>(values.size()) +
         std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

}  // namespace

GgufWriter& GgufWriter::raw(std::string_view key, uint32_t type, std::string_view bytes) {
  values_ += text(key) + raw_bytes(type) + std::string(bytes);
  ++num_values_;
  return *this;
}

GgufWriter& GgufWriter::u16(std::string_view key, uint16_t value) {
  return raw(key, 2, raw_bytes(value));
}
GgufWriter& GgufWriter::u32(std::string_view key, uint32_t value) {
  return raw(key, 4, raw_bytes(value));
}
GgufWriter& GgufWriter::i32(std::string_view key, int32_t value) {
  return raw(key, 5, raw_bytes(value));
}
GgufWriter& GgufWriter::f32(std::string_view key, float value) {
  return raw(key, 6, raw_bytes(value));
}
GgufWriter& GgufWriter::flag(std::string_view key, bool value) {
  return raw(key, 7, raw_bytes(static_cast<uint8_t>(value)));
}
GgufWriter& GgufWriter::str(std::string_view key, std::string_view value) {
  return raw(key, 8, text(value));
}
GgufWriter& GgufWriter::u64(std::string_view key, uint64_t value) {
  return raw(key, 10, raw_bytes(value));
}

GgufWriter& GgufWriter::strings(std::string_view key, const std::vector<std::string>& values) {
  std::string bytes = raw_bytes(uint32_t{8}) + raw_bytes<uint64_t>(values.size());
  for (const std::string& value : values) bytes += text(value);
  return raw(key, 9, bytes);
}
GgufWriter& GgufWriter::f32s(std::string_view key, std::span<const float> values) {
  return raw(key, 9, list(6, values));
}
GgufWriter& GgufWriter::i32s(std::string_view key, std::span<const int32_t> values) {
  return raw(key, 9, list(5, values));
}

GgufWriter& GgufWriter::add(std::string name, io::GgmlType type, std::vector<int64_t> dims,
                            std::string bytes) {
  entries_.push_back(
      {std::move(name), static_cast<uint32_t>(type), std::move(dims), std::move(bytes)});
  return *this;
}

GgufWriter& GgufWriter::add(std::string name, std::vector<int64_t> dims,
                            std::span<const float> values) {
  return add(std::move(name), io::GgmlType::F32, std::move(dims),
             std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
}

GgufWriter& GgufWriter::version(uint32_t version) {
  version_ = version;
  return *this;
}

GgufWriter& GgufWriter::alignment(uint32_t alignment) {
  alignment_ = alignment;
  return u32("general.alignment", alignment);
}

std::string GgufWriter::bytes() const {
  std::string out = "GGUF" + raw_bytes(version_) + raw_bytes<uint64_t>(entries_.size()) +
                    raw_bytes(num_values_) + values_;
  std::string data;
  const auto pad = [&](std::string& s) {
    s.append((alignment_ - s.size() % alignment_) % alignment_, '\0');
  };
  for (const Entry& e : entries_) {
    out += text(e.name) + raw_bytes(static_cast<uint32_t>(e.dims.size()));
    for (size_t i = e.dims.size(); i > 0; --i)
      out += raw_bytes(static_cast<uint64_t>(e.dims[i - 1]));
    out += raw_bytes(e.type) + raw_bytes<uint64_t>(data.size());
    data += e.bytes;
    pad(data);
  }
  pad(out);
  return out + data;
}

void GgufWriter::write(const std::string& path) const { write_file_atomic(path, bytes()); }

}  // namespace mlxcel::testing

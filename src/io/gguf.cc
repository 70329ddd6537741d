#include "io/gguf.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "io/gguf_parse.h"
#include "io/quoted_name.h"

namespace mlxcel::io {
namespace {

template <class T>
T element(std::span<const std::byte> bytes, uint64_t i) {
  T v;
  std::memcpy(&v, bytes.data() + i * sizeof(T), sizeof(T));
  return v;
}

// Calls fn with element `i` in its own type.
template <class Fn>
auto with_element(const GgufNumbers& n, uint64_t i, Fn&& fn) {
  using T = GgufNumbers::Type;
  MLXCEL_CHECK(i < n.count, "index beyond an array of GGUF metadata");
  switch (n.type) {
    case T::U8:
      return fn(element<uint8_t>(n.bytes, i));
    case T::I8:
      return fn(element<int8_t>(n.bytes, i));
    case T::U16:
      return fn(element<uint16_t>(n.bytes, i));
    case T::I16:
      return fn(element<int16_t>(n.bytes, i));
    case T::U32:
      return fn(element<uint32_t>(n.bytes, i));
    case T::I32:
      return fn(element<int32_t>(n.bytes, i));
    case T::U64:
      return fn(element<uint64_t>(n.bytes, i));
    case T::I64:
      return fn(element<int64_t>(n.bytes, i));
    case T::F32:
      return fn(element<float>(n.bytes, i));
    case T::F64:
      return fn(element<double>(n.bytes, i));
    case T::Bool:
      break;
  }
  return fn(static_cast<uint8_t>(element<uint8_t>(n.bytes, i) != 0));
}

int64_t saturate(double v) {
  if (std::isnan(v)) return 0;
  if (v >= 0x1p63) return INT64_MAX;
  return v <= -0x1p63 ? INT64_MIN : static_cast<int64_t>(v);
}
int64_t saturate(uint64_t v) {
  return v > uint64_t{INT64_MAX} ? INT64_MAX : static_cast<int64_t>(v);
}

constexpr std::string_view kSplitCount = "split.count";

// "x-00001-of-00003.gguf" -> the name of part `index` (from 0); nothing when the name has another
// form.
std::optional<std::string> part_name(const std::string& path, int64_t index, int64_t count) {
  const std::string first = fmt::format("-00001-of-{:05}.gguf", count);
  if (!path.ends_with(first)) return std::nullopt;
  return path.substr(0, path.size() - first.size()) +
         fmt::format("-{:05}-of-{:05}.gguf", index + 1, count);
}

}  // namespace

int64_t GgufNumbers::i64(uint64_t i) const {
  return with_element(*this, i, [](auto v) -> int64_t {
    if constexpr (std::is_floating_point_v<decltype(v)>) {
      return saturate(double{v});
    } else if constexpr (std::is_same_v<decltype(v), uint64_t>) {
      return saturate(v);
    } else {
      return int64_t{v};
    }
  });
}

double GgufNumbers::f64(uint64_t i) const {
  return with_element(*this, i, [](auto v) { return static_cast<double>(v); });
}

struct GgufFile::Impl {
  std::shared_ptr<const MappedFile> file;
  GgufPart head;  // metadata of the first part, tensors of all
  std::unordered_map<std::string_view, size_t> key_index, tensor_index;

  Error wrong(std::string_view key, std::string_view wanted) const {
    return {Code::InvalidArgument,
            fmt::format("{}: metadata key {} must be {}", file->path(), quote(key), wanted)};
  }

  void add_parts(int64_t count) {
    for (int64_t i = 1; i < count; ++i) {
      const auto name = part_name(file->path(), i, count);
      if (!name) {
        throw Error(Code::InvalidArgument,
                    fmt::format("{}: part of a model split into {} files; name the first, "
                                "\"...-00001-of-{:05}.gguf\"",
                                file->path(), count, count));
      }
      GgufPart part = with_context("a part of a split GGUF model",
                                   [&] { return parse_gguf(MappedFile::open(*name)); });
      for (GgufTensor& tensor : part.tensors) head.tensors.push_back(std::move(tensor));
    }
  }

  void index_tensors() {
    for (size_t i = 0; i < head.tensors.size(); ++i) {
      const auto [at, fresh] = tensor_index.emplace(head.tensors[i].name, i);
      if (!fresh) {
        throw Error(Code::Corrupt,
                    fmt::format("{}: tensor {} is also in {}", head.tensors[i].file->path(),
                                quote(at->first), head.tensors[at->second].file->path()));
      }
    }
  }
};

GgufFile::GgufFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GgufFile::~GgufFile() = default;

std::shared_ptr<const GgufFile> GgufFile::open(const std::string& path) {
  constexpr int64_t kMaxParts = 10000;
  auto impl = std::make_unique<Impl>();
  impl->file = MappedFile::open(path);
  impl->head = parse_gguf(impl->file);
  Impl& self = *impl;
  std::shared_ptr<GgufFile> out(new GgufFile(std::move(impl)));
  for (size_t i = 0; i < self.head.values.size(); ++i) {
    self.key_index.emplace(self.head.values[i].first, i);
  }
  const int64_t parts = out->i64_or(kSplitCount, 1);
  if (parts < 0 || parts > kMaxParts) throw self.wrong(kSplitCount, "between 0 and 10000");
  if (parts > 1 && out->i64_or("split.no", 0) != 0) {
    throw Error(
        Code::InvalidArgument,
        fmt::format("{}: this is not the first part of a model split into {} files; name the "
                    "one that ends in \"-00001-of-{:05}.gguf\"",
                    path, parts, parts));
  }
  self.add_parts(parts);
  self.index_tensors();
  const int64_t expected = out->i64_or("split.tensors.count", 0);
  if (parts > 1 && expected > 0 && static_cast<size_t>(expected) != self.head.tensors.size()) {
    throw Error(Code::Corrupt, fmt::format("{}: split.tensors.count is {}, but the parts hold {}",
                                           path, expected, self.head.tensors.size()));
  }
  return out;
}

const std::string& GgufFile::path() const { return impl_->file->path(); }

const GgufFile::Value* GgufFile::find(std::string_view key) const {
  const auto it = impl_->key_index.find(key);
  return it == impl_->key_index.end() ? nullptr : &impl_->head.values[it->second].second;
}

int64_t GgufFile::i64_or(std::string_view key, int64_t fallback) const {
  const Value* value = find(key);
  if (value == nullptr) return fallback;
  if (const auto* v = std::get_if<int64_t>(value)) return *v;
  const auto* v = std::get_if<uint64_t>(value);
  if (v == nullptr || *v > uint64_t{INT64_MAX}) throw impl_->wrong(key, "a 64-bit integer");
  return static_cast<int64_t>(*v);
}

double GgufFile::f64_or(std::string_view key, double fallback) const {
  const Value* value = find(key);
  if (value == nullptr) return fallback;
  if (const auto* v = std::get_if<double>(value)) return *v;
  if (const auto* v = std::get_if<uint64_t>(value)) return static_cast<double>(*v);
  if (const auto* v = std::get_if<int64_t>(value)) return static_cast<double>(*v);
  throw impl_->wrong(key, "a number");
}

bool GgufFile::flag_or(std::string_view key, bool fallback) const {
  const Value* value = find(key);
  if (value == nullptr) return fallback;
  if (const auto* v = std::get_if<bool>(value)) return *v;
  throw impl_->wrong(key, "a boolean");
}

std::string GgufFile::str_or(std::string_view key, std::string_view fallback) const {
  const Value* value = find(key);
  if (value == nullptr) return std::string(fallback);
  if (const auto* v = std::get_if<std::string_view>(value)) return std::string(*v);
  throw impl_->wrong(key, "a string");
}

const GgufFile::Strings* GgufFile::strings(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return nullptr;
  if (const auto* v = std::get_if<Strings>(value)) return v;
  throw impl_->wrong(key, "an array of strings");
}

std::vector<float> GgufFile::f32s(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return {};
  const auto* numbers = std::get_if<GgufNumbers>(value);
  if (numbers == nullptr) throw impl_->wrong(key, "an array of numbers");
  std::vector<float> out(numbers->count);
  if (numbers->type == GgufNumbers::Type::F32) {
    if (!out.empty()) std::memcpy(out.data(), numbers->bytes.data(), numbers->bytes.size());
    return out;
  }
  for (uint64_t i = 0; i < numbers->count; ++i) out[i] = static_cast<float>(numbers->f64(i));
  return out;
}

std::vector<int32_t> GgufFile::i32s(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return {};
  const auto* numbers = std::get_if<GgufNumbers>(value);
  if (numbers == nullptr || !numbers->integral()) throw impl_->wrong(key, "an array of integers");
  std::vector<int32_t> out(numbers->count);
  for (uint64_t i = 0; i < numbers->count; ++i) {
    const int64_t v = numbers->i64(i);
    if (v < INT32_MIN || v > INT32_MAX) throw impl_->wrong(key, "an array of 32-bit integers");
    out[i] = static_cast<int32_t>(v);
  }
  return out;
}

std::vector<std::string_view> GgufFile::keys() const {
  std::vector<std::string_view> out;
  out.reserve(impl_->head.values.size());
  for (const auto& [key, value] : impl_->head.values) out.push_back(key);
  return out;
}

std::span<const GgufTensor> GgufFile::tensors() const { return impl_->head.tensors; }

const GgufTensor* GgufFile::tensor(std::string_view name) const {
  const auto it = impl_->tensor_index.find(name);
  return it == impl_->tensor_index.end() ? nullptr : &impl_->head.tensors[it->second];
}

const std::shared_ptr<const MappedFile>& GgufFile::file() const { return impl_->file; }

int64_t GgufFile::tensor_bytes() const {
  int64_t sum = 0;
  for (const GgufTensor& tensor : impl_->head.tensors) {
    sum += static_cast<int64_t>(tensor.data.size());
  }
  return sum;
}

}  // namespace mlxcel::io

#include "io/gguf_parse.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_set>

#include "base/error.h"
#include "io/gguf_blocks.h"
#include "io/quoted_name.h"
#include "tensor/shape.h"

namespace mlxcel::io {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read without byte swapping");

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
constexpr uint32_t kMaxFileRank = 4;  // GGML_MAX_DIMS
constexpr uint64_t kMaxNameBytes = 65535;
// The least a metadata entry and a tensor entry take, to bound their counts by the file's size.
constexpr uint64_t kMinValueBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;

// Metadata value types of the format.
enum ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12
};

struct NumberTraits {
  GgufNumbers::Type type;
  uint64_t bytes;
};

// Size and view type of a number; bytes 0 for anything else.
NumberTraits number_traits(uint32_t type) {
  using T = GgufNumbers::Type;
  switch (type) {
    case kU8:
      return {T::U8, 1};
    case kI8:
      return {T::I8, 1};
    case kU16:
      return {T::U16, 2};
    case kI16:
      return {T::I16, 2};
    case kU32:
      return {T::U32, 4};
    case kI32:
      return {T::I32, 4};
    case kF32:
      return {T::F32, 4};
    case kBool:
      return {T::Bool, 1};
    case kU64:
      return {T::U64, 8};
    case kI64:
      return {T::I64, 8};
    case kF64:
      return {T::F64, 8};
    default:
      return {T::U8, 0};
  }
}

class Parser {
 public:
  explicit Parser(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}

  GgufPart parse() {
    uint64_t num_tensors = 0, num_values = 0;
    read_counts(num_tensors, num_values);
    GgufPart part;
    part.values.reserve(num_values);
    std::unordered_set<std::string_view> keys;
    for (uint64_t i = 0; i < num_values; ++i) {
      const std::string_view key = string("a metadata key", kMaxNameBytes);
      if (!keys.insert(key).second) {
        throw corrupt(fmt::format("metadata key {} is given twice", quote(key)));
      }
      part.values.emplace_back(key, value(key));
    }
    const uint64_t alignment = alignment_of(part);
    read_tensors(part, num_tensors);
    locate_tensors(part, alignment);
    return part;
  }

 private:
  struct Pending {
    uint64_t offset, bytes;
  };

  void read_counts(uint64_t& num_tensors, uint64_t& num_values) {
    if (file_->size() < 4 || number<uint32_t>("magic") != kMagic) {
      throw corrupt("not a GGUF file: the magic number is missing");
    }
    const auto version = number<uint32_t>("version");
    if (version == 1) throw unsupported("GGUF version 1 is not supported; convert the file again");
    if (version >= 0x10000 && (version & 0xFFFF) == 0) {
      throw unsupported("big-endian GGUF files are not supported");
    }
    if (version != 2 && version != 3) {
      throw unsupported(fmt::format("GGUF version {} is not supported (2 and 3 are)", version));
    }
    num_tensors = number<uint64_t>("tensor count");
    num_values = number<uint64_t>("metadata count");
    if (num_values > left() / kMinValueBytes || num_tensors > left() / kMinTensorBytes) {
      throw corrupt(
          fmt::format("truncated or corrupt: {} tensors and {} metadata entries do not fit "
                      "{} bytes",
                      num_tensors, num_values, file_->size()));
    }
  }

  GgufFile::Value value(std::string_view key) {
    const auto type = number<uint32_t>("value type");
    switch (type) {
      case kU8:
        return uint64_t{number<uint8_t>(key)};
      case kI8:
        return int64_t{number<int8_t>(key)};
      case kU16:
        return uint64_t{number<uint16_t>(key)};
      case kI16:
        return int64_t{number<int16_t>(key)};
      case kU32:
        return uint64_t{number<uint32_t>(key)};
      case kI32:
        return int64_t{number<int32_t>(key)};
      case kF32:
        return double{number<float>(key)};
      case kBool:
        return number<uint8_t>(key) != 0;
      case kString:
        return string(key);
      case kArray:
        return array(key);
      case kU64:
        return number<uint64_t>(key);
      case kI64:
        return number<int64_t>(key);
      case kF64:
        return number<double>(key);
      default:
        throw corrupt(
            fmt::format("metadata key {} has the unknown value type {}", quote(key), type));
    }
  }

  GgufFile::Value array(std::string_view key) {
    const auto type = number<uint32_t>(key);
    const auto count = number<uint64_t>(key);
    if (type == kString) {
      if (count > left() / 8) throw too_long(key, count);
      GgufFile::Strings out;
      out.reserve(count);
      for (uint64_t i = 0; i < count; ++i) out.push_back(string(key));
      return out;
    }
    if (type == kArray) {
      throw unsupported(fmt::format("metadata key {} is a nested array", quote(key)));
    }
    const NumberTraits traits = number_traits(type);
    if (traits.bytes == 0) {
      throw corrupt(
          fmt::format("metadata key {} has the unknown element type {}", quote(key), type));
    }
    if (count > left() / traits.bytes) throw too_long(key, count);
    return GgufNumbers{traits.type, count, take(count * traits.bytes)};
  }

  uint64_t alignment_of(const GgufPart& part) const {
    for (const auto& [key, value] : part.values) {
      if (key != "general.alignment") continue;
      const auto* alignment = std::get_if<uint64_t>(&value);
      if (alignment == nullptr || *alignment == 0 || *alignment % 8 != 0 ||
          *alignment > kMaxAlignment) {
        throw corrupt("general.alignment must be a multiple of 8, up to 1 MiB");
      }
      return *alignment;
    }
    return 32;
  }

  void read_tensors(GgufPart& part, uint64_t count) {
    part.tensors.reserve(count);
    pending_.reserve(count);
    std::unordered_set<std::string_view> names;
    for (uint64_t i = 0; i < count; ++i) {
      const std::string_view name = string("a tensor name", kMaxNameBytes);
      if (!names.insert(name).second) {
        throw corrupt(fmt::format("tensor {} is given twice", quote(name)));
      }
      GgufTensor tensor;
      tensor.name = std::string(name);
      tensor.file = file_;
      tensor.dims = dimensions(name);
      const GgmlTraits& traits = type_of(name);
      tensor.type = traits.type;
      const auto offset = number<uint64_t>(name);
      pending_.push_back({offset, bytes_of(tensor, traits)});
      part.tensors.push_back(std::move(tensor));
    }
  }

  std::vector<int64_t> dimensions(std::string_view name) {
    const auto rank = number<uint32_t>(name);
    if (rank > kMaxFileRank) {
      throw corrupt(fmt::format("tensor {} has {} dimensions; the format allows {}", quote(name),
                                rank, kMaxFileRank));
    }
    std::vector<int64_t> dims(rank);
    constexpr uint64_t kLimit = uint64_t{1} << 56;
    uint64_t product = 1;
    for (uint32_t i = 0; i < rank; ++i) {
      const auto d = number<uint64_t>(name);
      if (d > kLimit || (d > 0 && product > kLimit / d)) {
        throw corrupt(fmt::format("tensor {} is too large: dimension {} is {}", quote(name), i, d));
      }
      if (d > 0) product *= d;
      dims[rank - 1 - i] = static_cast<int64_t>(d);
    }
    return dims;
  }

  const GgmlTraits& type_of(std::string_view name) {
    const auto type = number<uint32_t>(name);
    const GgmlTraits* traits = ggml_traits(type);
    if (traits != nullptr) return *traits;
    const std::string_view known = known_ggml_type_name(type);
    if (known.empty()) {
      throw corrupt(fmt::format("tensor {} has the unknown type {}", quote(name), type));
    }
    throw unsupported(
        fmt::format("tensor {} has type {}, which is not supported", quote(name), known));
  }

  uint64_t bytes_of(const GgufTensor& tensor, const GgmlTraits& traits) const {
    uint64_t elements = 1;
    for (const int64_t d : tensor.dims) elements *= static_cast<uint64_t>(d);
    const int64_t row = tensor.dims.empty() ? 1 : tensor.dims.back();
    if (row % traits.block != 0) {
      throw corrupt(
          fmt::format("tensor {} of type {} has rows of {} elements, not a multiple of {}",
                      quote(tensor.name), traits.name, row, traits.block));
    }
    return elements / static_cast<uint64_t>(traits.block) *
           static_cast<uint64_t>(traits.block_bytes);
  }

  // Offsets count from the first aligned byte after the tensor table.
  void locate_tensors(GgufPart& part, uint64_t alignment) const {
    const uint64_t data_begin = (at_ + alignment - 1) / alignment * alignment;
    std::vector<std::pair<uint64_t, size_t>> order;
    for (size_t i = 0; i < pending_.size(); ++i) {
      const auto [offset, bytes] = pending_[i];
      GgufTensor& tensor = part.tensors[i];
      if (offset % alignment != 0) {
        throw corrupt(fmt::format("tensor {} lies at offset {}, which is not a multiple of {}",
                                  quote(tensor.name), offset, alignment));
      }
      if (data_begin > file_->size() || offset > file_->size() - data_begin ||
          bytes > file_->size() - data_begin - offset) {
        throw corrupt(
            fmt::format("truncated: tensor {} ends {} + {} bytes after the header, but the "
                        "file holds {} bytes",
                        quote(tensor.name), offset, bytes, file_->size()));
      }
      tensor.data = file_->view(data_begin + offset, bytes);
      if (bytes > 0) order.emplace_back(offset, i);
    }
    std::sort(order.begin(), order.end());
    for (size_t i = 1; i < order.size(); ++i) {
      const size_t before = order[i - 1].second;
      if (pending_[before].offset + pending_[before].bytes > order[i].first) {
        throw corrupt(fmt::format("tensors {} and {} overlap", quote(part.tensors[before].name),
                                  quote(part.tensors[order[i].second].name)));
      }
    }
  }

  uint64_t left() const { return file_->size() - at_; }

  std::span<const std::byte> take(uint64_t bytes) {
    const auto view = file_->view(at_, bytes);
    at_ += bytes;
    return view;
  }

  template <class T>
  T number(std::string_view what) {
    if (sizeof(T) > left()) {
      throw corrupt(fmt::format("truncated: the file ends inside {}", quote(what)));
    }
    T v;
    std::memcpy(&v, take(sizeof(T)).data(), sizeof(T));
    return v;
  }

  std::string_view string(std::string_view what, uint64_t limit = UINT64_MAX) {
    const auto length = number<uint64_t>(what);
    if (length > left()) {
      throw corrupt(fmt::format("truncated: {} is a string of {} bytes, but {} are left",
                                quote(what), length, left()));
    }
    if (length > limit) {
      throw corrupt(fmt::format("{} has {} bytes; at most {} are allowed", what, length, limit));
    }
    const auto bytes = take(length);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  Error too_long(std::string_view key, uint64_t count) const {
    return corrupt(fmt::format("truncated: {} is an array of {} elements, but {} bytes are left",
                               quote(key), count, left()));
  }
  Error corrupt(const std::string& what) const {
    return {Code::Corrupt, fmt::format("{}: {}", file_->path(), what)};
  }
  Error unsupported(const std::string& what) const {
    return {Code::Unsupported, fmt::format("{}: {}", file_->path(), what)};
  }

  std::shared_ptr<const MappedFile> file_;
  uint64_t at_ = 0;  // never beyond the file
  std::vector<Pending> pending_;
};

}  // namespace

GgufPart parse_gguf(const std::shared_ptr<const MappedFile>& file) { return Parser(file).parse(); }

}  // namespace mlxcel::io

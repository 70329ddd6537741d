#include "io/safetensors_header.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "base/error.h"
#include "io/quoted_name.h"
#include "tensor/shape.h"

namespace mlxcel::io {
namespace {

struct TypeTag {
  std::string_view tag;
  DType dtype;
};
constexpr TypeTag kTypes[] = {
    {"F32", DType::F32},        {"F16", DType::F16},        {"BF16", DType::BF16},
    {"F8_E4M3", DType::F8E4M3}, {"F8_E5M2", DType::F8E5M2}, {"I8", DType::I8},
    {"U8", DType::U8},          {"I16", DType::I16},        {"U16", DType::U16},
    {"I32", DType::I32},        {"U32", DType::U32},        {"I64", DType::I64},
    {"U64", DType::U64},        {"F64", DType::F64},        {"BOOL", DType::Bool}};
// Tags of the published format without a counterpart here.
constexpr std::string_view kUnsupportedTypes[] = {"F4",  "F6_E2M3",     "F6_E3M2",    "F8_E8M0",
                                                  "C64", "F8_E4M3FNUZ", "F8_E5M2FNUZ"};

constexpr std::string_view kMetadata = "__metadata__";

class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  Handler(SafetensorsHeader& out, const std::string& source) : out_(out), source_(source) {}

  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("a boolean"); }
  bool number_integer(int64_t v) override {
    if (collecting()) throw corrupt(fmt::format("{} holds the negative number {}", field(), v));
    return scalar("a number");
  }
  bool number_unsigned(uint64_t v) override {
    if (!collecting()) return scalar("a number");
    numbers_.push_back(v);
    return true;
  }
  bool number_float(double, const std::string& text) override {
    if (collecting()) {
      throw corrupt(
          fmt::format("{} holds {}, which is not a 64-bit integer", field(), quote(text)));
    }
    return scalar("a number");
  }
  bool string(std::string& v) override {
    if (in_metadata_) {
      if (depth_ == 2) {
        out_.metadata.emplace_back(std::move(metadata_key_), std::move(v));
      } else {
        out_.odd_metadata = true;
      }
      return true;
    }
    if (depth_ == 2 && field_ == "dtype") {
      dtype_ = std::move(v);
      return true;
    }
    return scalar("a string");
  }
  bool binary(nlohmann::json::binary_t&) override { return false; }

  bool start_object(size_t) override {
    if (in_metadata_) {
      out_.odd_metadata = out_.odd_metadata || depth_ >= 2;
    } else if (depth_ == 2) {
      refuse_known_field("an object");
    } else if (collecting_depth()) {
      throw corrupt(fmt::format("{} holds an object", field()));
    }
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    if (depth_ == 1) {
      if (!in_metadata_) finish_tensor();
      in_metadata_ = false;
    }
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ == 0) throw header_error("the header must be a JSON object, found an array");
    if (in_metadata_) {
      out_.odd_metadata = true;
    } else if (depth_ == 1) {
      throw corrupt("expected an object, found an array");
    } else if (depth_ == 2) {
      if (field_ == "dtype") refuse_known_field("an array");
      numbers_.clear();
    } else if (collecting_depth()) {
      throw corrupt(fmt::format("{} holds a nested list", field()));
    }
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    if (depth_ == 1) in_metadata_ = false;  // "__metadata__": [...]
    if (in_metadata_ || depth_ != 2) return true;
    if (field_ == "shape") shape_ = numbers_;
    if (field_ == "data_offsets") offsets_ = numbers_;
    return true;
  }
  bool key(std::string& v) override {
    if (depth_ == 1) {
      begin_entry(v);
    } else if (in_metadata_) {
      if (depth_ == 2) metadata_key_ = v;
    } else if (depth_ == 2) {
      field_ = v;
      const bool again =
          (v == "dtype" && dtype_) || (v == "shape" && shape_) || (v == "data_offsets" && offsets_);
      if (again) throw corrupt(fmt::format("{} is given twice", quote(v)));
    }
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& e) override {
    // Drops the library's prefix "[json.exception.parse_error.101] parse error at line 1, column 2:
    // ".
    const std::string_view what = e.what();
    const size_t colon = what.find(": ");
    throw header_error(fmt::format("the header is not valid JSON at byte {}: {}", position,
                                   what.substr(colon == std::string_view::npos ? 0 : colon + 2)));
  }

 private:
  // Inside the list of a field that is read.
  bool collecting_depth() const {
    return !in_metadata_ && depth_ == 3 && (field_ == "shape" || field_ == "data_offsets");
  }
  bool collecting() const { return collecting_depth(); }
  std::string field() const { return quote(field_); }

  // A value that is not what its place asks for.
  bool scalar(std::string_view kind) {
    if (depth_ == 0) {
      throw header_error(fmt::format("the header must be a JSON object, found {}", kind));
    }
    if (in_metadata_) {
      out_.odd_metadata = true;
      if (depth_ == 1) in_metadata_ = false;
    } else if (depth_ == 1) {
      throw corrupt(fmt::format("expected an object, found {}", kind));
    } else if (depth_ == 2) {
      refuse_known_field(kind);
    } else if (collecting_depth()) {
      throw corrupt(fmt::format("{} holds {}", field(), kind));
    }
    return true;
  }
  void refuse_known_field(std::string_view kind) const {
    if (field_ == "dtype" || field_ == "shape" || field_ == "data_offsets") {
      throw corrupt(fmt::format("{} is {}", field(), kind));
    }
  }

  void begin_entry(const std::string& name) {
    in_metadata_ = name == kMetadata;
    if (!names_.insert(name).second) {
      throw header_error(fmt::format("the header names {} twice", quote(name)));
    }
    name_ = name;
    dtype_.reset();
    shape_.reset();
    offsets_.reset();
  }

  // finish_tensor() refuses a tensor that lacks one of the three before it reads any of them.
  // NOLINTBEGIN(bugprone-unchecked-optional-access)
  DType dtype() const {
    for (const auto& [tag, value] : kTypes) {
      if (tag == *dtype_) return value;
    }
    for (const std::string_view tag : kUnsupportedTypes) {
      if (tag == *dtype_) {
        throw Error(Code::Unsupported,
                    fmt::format("{}: tensor {}: elements of type {} are not supported", source_,
                                quote(name_), tag));
      }
    }
    throw corrupt(fmt::format("unknown dtype {}", quote(*dtype_)));
  }

  void finish_tensor() {
    for (const auto& [present, what] :
         {std::pair{dtype_.has_value(), "dtype"}, std::pair{shape_.has_value(), "shape"},
          std::pair{offsets_.has_value(), "data_offsets"}}) {
      if (!present) throw corrupt(fmt::format("\"{}\" is missing", what));
    }
    SafetensorsEntry entry;
    entry.dtype = dtype();
    if (shape_->size() > Shape::kMaxRank) {
      throw Error(Code::Unsupported,
                  fmt::format("{}: tensor {}: rank {} exceeds the limit of {}", source_,
                              quote(name_), shape_->size(), int{Shape::kMaxRank}));
    }
    if (offsets_->size() != 2) {
      throw corrupt(fmt::format("\"data_offsets\" holds {} numbers, not 2", offsets_->size()));
    }
    entry.begin = (*offsets_)[0];
    entry.end = (*offsets_)[1];
    if (entry.begin > entry.end) {
      throw corrupt(fmt::format("\"data_offsets\" [{}, {}] run backwards", entry.begin, entry.end));
    }
    const uint64_t bytes = shape_bytes(static_cast<uint64_t>(size_of(entry.dtype)));
    for (const uint64_t d : *shape_) entry.dims.push_back(static_cast<int64_t>(d));
    if (bytes != entry.end - entry.begin) {
      throw corrupt(fmt::format("{} of shape {} takes {} bytes, but \"data_offsets\" span {}",
                                *dtype_, shape_text(entry.dims), bytes, entry.end - entry.begin));
    }
    entry.name = name_;
    out_.tensors.push_back(std::move(entry));
  }

  uint64_t shape_bytes(uint64_t element_size) const {
    constexpr uint64_t kLimit = uint64_t{1} << 62;
    uint64_t product = element_size;
    for (const uint64_t d : *shape_) {
      if (d > kLimit || (d > 0 && product > kLimit / d)) {
        throw corrupt("\"shape\" has too many elements");
      }
      // A zero makes the tensor empty, but the other dimensions must still be sound.
      if (d > 0) product *= d;
    }
    for (const uint64_t d : *shape_) {
      if (d == 0) return 0;
    }
    return product;
  }
  // NOLINTEND(bugprone-unchecked-optional-access)

  Error corrupt(const std::string& what) const {
    return {Code::Corrupt, fmt::format("{}: tensor {}: {}", source_, quote(name_), what)};
  }
  Error header_error(const std::string& what) const {
    return {Code::Corrupt, fmt::format("{}: {}", source_, what)};
  }

  SafetensorsHeader& out_;
  const std::string& source_;
  int64_t depth_ = 0;
  bool in_metadata_ = false;
  std::string name_, field_, metadata_key_;
  std::optional<std::string> dtype_;
  std::optional<std::vector<uint64_t>> shape_, offsets_;
  std::vector<uint64_t> numbers_;
  std::unordered_set<std::string> names_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& source) {
  SafetensorsHeader header;
  Handler handler(header, source);
  nlohmann::json::sax_parse(json.begin(), json.end(), &handler);
  return header;
}

}  // namespace mlxcel::io

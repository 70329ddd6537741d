#include "golden/golden_case.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <stdexcept>

#include "base/file.h"
#include "testing/paths.h"
#include "testing/safetensors_writer.h"

namespace mlxcel::testing {
namespace {

template <class T>
std::vector<T> numbers(const Json& list) {
  std::vector<T> out;
  for (const Json& v : list.as_array()) {
    if constexpr (std::is_floating_point_v<T>) {
      out.push_back(static_cast<T>(v.as_double()));
    } else {
      out.push_back(static_cast<T>(v.as_int()));
    }
  }
  return out;
}

const Json& member(const Json& object, std::string_view key) {
  const Json* found = object.find(key);
  if (found == nullptr) throw std::runtime_error("golden.json lacks " + std::string(key));
  return *found;
}

std::vector<float> from_hex(const std::string& text) {
  std::vector<float> out;
  for (size_t i = 0; i + 8 <= text.size(); i += 8) {
    out.push_back(
        std::bit_cast<float>(static_cast<uint32_t>(std::stoul(text.substr(i, 8), nullptr, 16))));
  }
  return out;
}

GoldenTensor tensor_from(const Json& json) {
  GoldenTensor t;
  t.name = member(json, "name").as_string();
  t.shape = numbers<int64_t>(member(json, "shape"));
  t.kind = member(json, "kind").as_string();
  t.offset = member(json, "offset").as_double();
  t.amplitude = member(json, "amplitude").as_double();
  if (t.kind == "affine") {
    t.bits = static_cast<int>(member(json, "bits").as_int());
    t.group = member(json, "group").as_int();
    t.scale_type = member(json, "scale_type").as_string();
  }
  if (t.kind == "mxfp4") t.exponent = static_cast<int>(member(json, "exponent").as_int());
  if (t.is_block_kind()) t.fields = numbers<double>(member(json, "fields"));
  return t;
}

DType dtype_of(std::string_view kind) {
  if (kind == "f16") return DType::F16;
  return kind == "bf16" ? DType::BF16 : DType::F32;
}

}  // namespace

namespace {

/// As gpt-oss has it (blocks and scales), or as MLX does when the name ends in ".weight".
void add_mxfp4(SafetensorsWriter& writer, uint64_t seed, const GoldenTensor& t) {
  const GoldenMxfp4 m = golden_mxfp4(seed, t);
  std::vector<int64_t> groups = t.shape, codes = t.shape;
  groups.back() /= 32;
  if (t.name.ends_with(".weight")) {
    codes.back() /= 8;
    writer.add(t.name, DType::U32, codes, m.codes);
    writer.add(t.name.substr(0, t.name.rfind('.')) + ".scales", DType::U8, groups, m.scales);
    return;
  }
  codes.back() /= 32;
  codes.push_back(16);
  writer.add(t.name + "_blocks", DType::U8, codes, m.codes);
  writer.add(t.name + "_scales", DType::U8, groups, m.scales);
}

}  // namespace

std::string GoldenCase::storage() const {
  for (const GoldenTensor& t : tensors) {
    const bool in_layer = t.name.find(".0.") != std::string::npos;
    if (t.shape.size() != 2 || !in_layer || t.name.find("norm") != std::string::npos) continue;
    if (t.kind != "affine") return t.kind;
    return "affine" + std::to_string(t.bits) + "_g" + std::to_string(t.group);
  }
  return "none";
}

bool GoldenCase::is_dense() const {
  return std::ranges::all_of(tensors, [](const GoldenTensor& t) {
    return t.kind != "affine" && t.kind != "mxfp4" && !t.is_block_kind();
  });
}

bool GoldenCase::has_block_kinds() const {
  return std::ranges::any_of(tensors, [](const GoldenTensor& t) { return t.is_block_kind(); });
}

std::vector<std::string> golden_names() {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  const fs::path root = data_path("golden");
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().filename() != "golden.json") continue;
    names.push_back(fs::relative(entry.path().parent_path(), root).generic_string());
  }
  std::ranges::sort(names);
  return names;
}

GoldenCase load_golden(const std::string& name) {
  const std::string folder = data_path("golden/" + name);
  GoldenCase c;
  c.name = name;
  c.config_text = read_file(folder + "/config.json");
  c.config = Json::parse(c.config_text).value();
  const Json golden = Json::parse(read_file(folder + "/golden.json")).value();
  c.oracle = member(golden, "oracle").as_string();
  c.seed = static_cast<uint64_t>(member(golden, "seed").as_int());
  for (const Json& t : member(golden, "tensors").as_array()) c.tensors.push_back(tensor_from(t));
  c.prompt = numbers<int32_t>(member(golden, "prompt"));
  c.positions = numbers<int64_t>(member(golden, "positions"));
  for (const Json& row : member(golden, "logits").as_array()) {
    c.logits.push_back(from_hex(row.as_string()));
  }
  c.greedy = numbers<int32_t>(member(golden, "greedy"));
  return c;
}

void write_safetensors_checkpoint(const GoldenCase& c, const std::string& folder,
                                  const std::function<std::string(const std::string&)>& rename) {
  write_file_atomic(folder + "/config.json", c.config_text);
  SafetensorsWriter writer;
  for (const GoldenTensor& t : c.tensors) {
    if (t.is_block_kind()) throw std::runtime_error(t.name + " has no safetensors form");
    const std::string name = rename ? rename(t.name) : t.name;
    if (t.kind == "mxfp4") {
      add_mxfp4(writer, c.seed, t);
      continue;
    }
    if (t.kind != "affine") {
      writer.add(name, dtype_of(t.kind), t.shape, golden_bytes(golden_dense(c.seed, t), t.kind));
      continue;
    }
    const std::string module = name.substr(0, name.rfind('.'));
    const GoldenAffine a = golden_affine(c.seed, t);
    std::vector<int64_t> groups = t.shape, words = t.shape;  // of each row
    groups.back() /= t.group;
    words.back() = words.back() * t.bits / 32;
    writer.add(name, DType::U32, words, a.codes);
    writer.add(module + ".scales", dtype_of(t.scale_type), groups, a.scales);
    writer.add(module + ".biases", dtype_of(t.scale_type), groups, a.biases);
  }
  writer.write(folder + "/model.safetensors");
}

}  // namespace mlxcel::testing

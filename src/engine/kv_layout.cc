#include "engine/kv_layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <string>

#include "base/error.h"

namespace mlxcel::engine {
namespace {

constexpr int64_t kMaxDim = int64_t{1} << 20;
constexpr int32_t kMaxBlockTokens = 4096;

bool keeps_blocks(nn::CacheSpec::Kind kind) {
  using Kind = nn::CacheSpec::Kind;
  return kind == Kind::Full || kind == Kind::Window || kind == Kind::Latent;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t state_bytes_of(const nn::CacheSpec& spec) {
  int64_t sum = 0;
  for (const Shape& shape : spec.state) sum += shape.numel() * size_of(DType::F32);
  return sum;
}

void add_to_group(KvLayout& layout, int32_t layer, const nn::CacheSpec& spec) {
  if (spec.num_kv_heads <= 0 || spec.k_dim <= 0 || spec.v_dim < 0 || spec.num_kv_heads > kMaxDim ||
      spec.k_dim > kMaxDim || spec.v_dim > kMaxDim) {
    throw Error(Code::InvalidArgument,
                fmt::format("layer {}: cache of {} heads with {} + {} elements is not possible",
                            layer, spec.num_kv_heads, spec.k_dim, spec.v_dim));
  }
  const int32_t window = spec.kind == nn::CacheSpec::Kind::Window ? spec.window : 0;
  if (spec.kind == nn::CacheSpec::Kind::Window && window <= 0) {
    throw Error(
        Code::InvalidArgument,
        fmt::format("layer {}: a sliding window of {} tokens is not possible", layer, spec.window));
  }
  auto group = std::find_if(layout.groups.begin(), layout.groups.end(),
                            [&](const BlockGroup& g) { return g.window == window; });
  if (group == layout.groups.end()) {
    layout.groups.push_back({.window = window, .layers = {}, .block_bytes = 0});
    group = layout.groups.end() - 1;
  }
  group->layers.push_back(layer);
  group->block_bytes += int64_t{spec.num_kv_heads} * (int64_t{spec.k_dim} + spec.v_dim) *
                        layout.block_tokens * size_of(layout.type);
  layout.layer_group[static_cast<size_t>(layer)] =
      static_cast<int32_t>(group - layout.groups.begin());
}

// The number in front of " kB" or at the start of `text`; nothing when there is none.
std::optional<int64_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::optional<int64_t> meminfo_bytes(std::string_view key) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!std::string_view(line).starts_with(key)) continue;
    const auto kib = leading_number(std::string_view(line).substr(key.size()));
    if (kib) return *kib * 1024;
  }
  return std::nullopt;
}

std::optional<int64_t> number_in(const char* path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return leading_number(line);  // "max" is no number
}

}  // namespace

KvLayout make_kv_layout(std::span<const nn::CacheSpec> layers, int32_t block_tokens, DType type) {
  if (block_tokens < 1 || block_tokens > kMaxBlockTokens) {
    throw Error(Code::InvalidArgument, fmt::format("block size {}: expected 1 to {} tokens",
                                                   block_tokens, kMaxBlockTokens));
  }
  if (type != DType::F32 && type != DType::F16 && type != DType::BF16) {
    throw Error(Code::InvalidArgument, "cache type: expected f32, f16 or bf16");
  }
  KvLayout layout;
  layout.block_tokens = block_tokens;
  layout.type = type;
  layout.layers.assign(layers.begin(), layers.end());
  layout.layer_group.assign(layers.size(), -1);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (keeps_blocks(layers[i].kind)) add_to_group(layout, static_cast<int32_t>(i), layers[i]);
    if (!layers[i].state.empty()) {
      layout.recurrent = true;
      layout.state_bytes += state_bytes_of(layers[i]);
    }
  }
  return layout;
}

int64_t KvLayout::sequence_bytes(int64_t tokens, int64_t step_tokens) const {
  int64_t sum = 0;
  for (const BlockGroup& g : groups) {
    // Behind a window, a block is released once no later position can see it; the range in use can
    // straddle one block more than its length needs.
    const int64_t kept =
        g.window == 0 ? tokens : std::min(tokens, g.window + step_tokens + block_tokens);
    sum += ceil_div(kept, block_tokens) * g.block_bytes;
  }
  return sum;
}

int64_t KvLayout::bytes_per_token() const {
  int64_t sum = 0;
  for (const BlockGroup& g : groups) sum += g.block_bytes;
  return sum / block_tokens;
}

int64_t available_memory_bytes() {
  const auto available = meminfo_bytes("MemAvailable:");
  if (!available) {
    throw Error(Code::NotFound,
                "/proc/meminfo does not name MemAvailable; give the cache budget in bytes");
  }
  int64_t bytes = *available;
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (limit && used) bytes = std::min(bytes, std::max<int64_t>(0, *limit - *used));
  return bytes;
}

int64_t total_memory_bytes() {
  const auto total = meminfo_bytes("MemTotal:");
  if (!total) throw Error(Code::NotFound, "/proc/meminfo does not name MemTotal");
  return *total;
}

int64_t auto_kv_budget(int64_t available_bytes, int64_t activation_bytes, int64_t useful_bytes,
                       int64_t floor_bytes) {
  const int64_t left = std::max<int64_t>(0, available_bytes - activation_bytes);
  return std::max(floor_bytes, std::min(left / 5 * 4, useful_bytes));
}

}  // namespace mlxcel::engine

#include "engine/kv_cache.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "tensor/device.h"

namespace mlxcel::engine {

// Address space whose pages the system fills in at the first write; on a device memory taken whole.
class KvCache::Region {
 public:
  Region(int64_t bytes, Device device) : bytes_(static_cast<size_t>(std::max<int64_t>(bytes, 1))) {
    if (device.kind != DeviceKind::Cpu) {
      on_device_ = device_runtime(device).allocate(bytes);
      data_ = on_device_->data();
      return;
    }
    data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) {
      throw Error(Code::ResourceExhausted,
                  fmt::format("cannot reserve {} bytes of address space for the KV cache; give a "
                              "smaller budget",
                              bytes));
    }
  }
  ~Region() {
    if (!on_device_) ::munmap(data_, bytes_);
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
  size_t bytes_;
  std::shared_ptr<Buffer> on_device_;
};

KvCache::KvCache(KvLayout layout, const KvCacheOptions& options)
    : layout_(std::move(layout)), options_(options) {
  int64_t smallest = 0;
  for (const BlockGroup& g : layout_.groups) smallest += g.block_bytes;
  if (options_.budget_bytes < smallest) {
    throw Error(Code::InvalidArgument,
                fmt::format("KV cache budget of {} bytes: one block of {} tokens takes {} bytes",
                            options_.budget_bytes, layout_.block_tokens, smallest));
  }
  for (const BlockGroup& g : layout_.groups) {
    const int64_t fit = options_.budget_bytes / g.block_bytes;
    pools_.emplace_back(
        static_cast<int32_t>(std::min<int64_t>(fit, std::numeric_limits<int32_t>::max() / 2)));
  }
  k_.resize(layout_.layers.size());
  v_.resize(layout_.layers.size());
  states_.resize(layout_.layers.size());
  for (size_t i = 0; i < layout_.layers.size(); ++i) {
    const nn::CacheSpec& spec = layout_.layers[i];
    if (layout_.layer_group[i] >= 0) {
      const int64_t rows = int64_t{blocks(layout_.layer_group[i]).capacity()} * spec.num_kv_heads *
                           layout_.block_tokens;
      k_[i] = std::make_unique<Region>(rows * spec.k_dim * size_of(layout_.type), options_.device);
      if (spec.v_dim > 0) {
        v_[i] =
            std::make_unique<Region>(rows * spec.v_dim * size_of(layout_.type), options_.device);
      }
    }
    for (const Shape& shape : spec.state) {
      std::vector<int64_t> dims = {options_.num_state_rows};
      dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
      states_[i].push_back(Tensor::zeros(Shape(dims), DType::F32, options_.device));
    }
  }
  if (layout_.recurrent) {
    free_rows_.resize(static_cast<size_t>(options_.num_state_rows));
    std::iota(free_rows_.rbegin(), free_rows_.rend(), 0);
  }
}

KvCache::~KvCache() = default;

int32_t KvCache::blocks_for(int64_t tokens) const {
  return static_cast<int32_t>((tokens + layout_.block_tokens - 1) / layout_.block_tokens);
}

BlockId KvCache::take(int32_t group) {
  const auto id = pool(group).take();
  MLXCEL_CHECK(id.has_value(), "the byte count promised a block that the pool does not have");
  live_bytes_ += layout_.groups[static_cast<size_t>(group)].block_bytes;
  return *id;
}

void KvCache::drop(int32_t group, BlockId id) {
  if (pool(group).drop(id)) {
    live_bytes_ -= layout_.groups[static_cast<size_t>(group)].block_bytes;
  }
}

bool KvCache::open(CacheAllocation& a, int32_t max_tokens) {
  MLXCEL_CHECK(!a.open, "the sequence is open already");
  if (layout_.recurrent && free_rows_.empty()) return false;
  const size_t num_groups = layout_.groups.size();
  std::vector<std::vector<BlockId>> runs(num_groups);
  if (options_.dense) {
    const int32_t count = std::max(1, blocks_for(max_tokens));
    int64_t bytes = 0;
    for (const BlockGroup& g : layout_.groups) bytes += g.block_bytes * count;
    if (bytes > free_bytes()) return false;
    for (size_t g = 0; g < num_groups; ++g) {
      const auto first = pool(static_cast<int32_t>(g)).take_run(count);
      if (!first) {  // enough blocks, but no stretch of them
        for (size_t done = 0; done < g; ++done) {
          for (const BlockId id : runs[done]) drop(static_cast<int32_t>(done), id);
        }
        return false;
      }
      runs[g].resize(static_cast<size_t>(count));
      std::iota(runs[g].begin(), runs[g].end(), *first);
      live_bytes_ += layout_.groups[g].block_bytes * count;
    }
  }
  a.blocks = std::move(runs);
  a.released.assign(num_groups, 0);
  a.num_tokens = 0;
  a.num_reserved = 0;
  a.open = true;
  if (layout_.recurrent) {
    a.state_row = free_rows_.back();
    free_rows_.pop_back();
    for (const auto& tensors : states_) {
      for (const Tensor& t : tensors) {
        Tensor row = t.slice(0, a.state_row, a.state_row + 1);
        fill_bytes(options_.device, row.raw(), 0, row.bytes());
      }
    }
  }
  return true;
}

bool KvCache::adopt(CacheAllocation& a, const std::vector<std::vector<BlockId>>& blocks,
                    int32_t num_tokens, const StateSnapshot* state, int32_t max_tokens) {
  MLXCEL_CHECK(blocks.size() == layout_.groups.size(), "one block list a group");
  MLXCEL_CHECK(!layout_.recurrent || state != nullptr, "recurrent layers need their state");
  if (!open(a, max_tokens)) return false;
  for (size_t g = 0; g < blocks.size(); ++g) {
    const auto group = static_cast<int32_t>(g);
    MLXCEL_CHECK(static_cast<int32_t>(blocks[g].size()) == blocks_for(num_tokens),
                 "the block list must cover the adopted positions");
    for (size_t i = 0; i < blocks[g].size(); ++i) {
      if (options_.dense) {
        if (blocks[g][i] != kNoBlock) copy_block(group, blocks[g][i], a.blocks[g][i]);
      } else {
        if (blocks[g][i] != kNoBlock) share(group, blocks[g][i]);
        a.blocks[g].push_back(blocks[g][i]);
      }
    }
  }
  a.num_tokens = num_tokens;
  a.num_reserved = num_tokens;
  if (state != nullptr && layout_.recurrent) load_state(a, *state);
  release_behind_windows(a);
  return true;
}

int64_t KvCache::reserve_bytes(const CacheAllocation& a, int32_t new_tokens) const {
  int64_t sum = 0;
  const int32_t wanted = blocks_for(int64_t{a.num_tokens} + new_tokens);
  const size_t tail = static_cast<size_t>(a.num_tokens / layout_.block_tokens);
  for (size_t g = 0; g < layout_.groups.size(); ++g) {
    int64_t count = std::max(0, wanted - static_cast<int32_t>(a.blocks[g].size()));
    const bool writes_tail = tail < a.blocks[g].size() && new_tokens > 0;
    if (writes_tail && !pools_[g].exclusive(a.blocks[g][tail])) ++count;
    sum += count * layout_.groups[g].block_bytes;
  }
  return sum;
}

int64_t KvCache::growth_bytes(const CacheAllocation& a, int32_t target_tokens,
                              int32_t step_tokens) const {
  int64_t sum = 0;
  const size_t tail = static_cast<size_t>(a.num_tokens / layout_.block_tokens);
  for (size_t g = 0; g < layout_.groups.size(); ++g) {
    const BlockGroup& group = layout_.groups[g];
    int64_t count = blocks_for(target_tokens);
    if (group.window > 0) {
      count = std::min<int64_t>(
          count, blocks_for(int64_t{group.window} + step_tokens + layout_.block_tokens));
    }
    for (const BlockId id : a.blocks[g]) count -= id != kNoBlock ? 1 : 0;
    count = std::max<int64_t>(count, 0);
    if (tail < a.blocks[g].size() && !pools_[g].exclusive(a.blocks[g][tail])) ++count;
    sum += count * group.block_bytes;
  }
  return sum;
}

bool KvCache::reserve(CacheAllocation& a, int32_t new_tokens) {
  MLXCEL_CHECK(a.open && new_tokens >= 0, "only an open sequence can grow");
  if (reserve_bytes(a, new_tokens) > free_bytes()) return false;
  const int32_t wanted = blocks_for(int64_t{a.num_tokens} + new_tokens);
  const size_t tail = static_cast<size_t>(a.num_tokens / layout_.block_tokens);
  for (size_t g = 0; g < layout_.groups.size(); ++g) {
    const auto group = static_cast<int32_t>(g);
    auto& table = a.blocks[g];
    if (tail < table.size() && new_tokens > 0 && !pools_[g].exclusive(table[tail])) {
      const BlockId copy = take(group);
      copy_block(group, table[tail], copy);
      drop(group, table[tail]);
      table[tail] = copy;
    }
    while (static_cast<int32_t>(table.size()) < wanted) table.push_back(take(group));
  }
  a.num_reserved = std::max(a.num_reserved, a.num_tokens + new_tokens);
  return true;
}

void KvCache::commit(CacheAllocation& a, int32_t tokens) {
  MLXCEL_CHECK(tokens >= 0 && tokens <= a.num_reserved - a.num_tokens,
               "more positions committed than were reserved");
  a.num_tokens += tokens;
  a.num_reserved = a.num_tokens;
  if (!options_.dense) {
    const auto wanted = static_cast<size_t>(blocks_for(a.num_tokens));
    for (size_t g = 0; g < layout_.groups.size(); ++g) {
      for (auto& table = a.blocks[g]; table.size() > wanted; table.pop_back()) {
        drop(static_cast<int32_t>(g), table.back());
      }
    }
  }
  release_behind_windows(a);
}

void KvCache::release_behind_windows(CacheAllocation& a) {
  for (size_t g = 0; g < layout_.groups.size(); ++g) {
    const int32_t window = layout_.groups[g].window;
    if (window == 0) continue;
    // The next token has position num_tokens and sees window - 1 positions before its own.
    const int32_t first_visible = a.num_tokens - window + 1;
    const int32_t end = std::min(std::max(0, first_visible / layout_.block_tokens),
                                 static_cast<int32_t>(a.blocks[g].size()));
    for (int32_t i = a.released[g]; i < end; ++i) {
      BlockId& id = a.blocks[g][static_cast<size_t>(i)];
      if (id != kNoBlock) drop(static_cast<int32_t>(g), id);
      id = kNoBlock;
    }
    a.released[g] = std::max(a.released[g], end);
  }
}

void KvCache::close(CacheAllocation& a) {
  if (!a.open) return;
  for (size_t g = 0; g < a.blocks.size(); ++g) {
    for (const BlockId id : a.blocks[g]) {
      if (id != kNoBlock) drop(static_cast<int32_t>(g), id);
    }
  }
  if (a.state_row >= 0) free_rows_.push_back(a.state_row);
  a = CacheAllocation{};
}

void KvCache::copy_block(int32_t group, BlockId from, BlockId to) {
  for (const int32_t layer : layout_.groups[static_cast<size_t>(group)].layers) {
    const auto i = static_cast<size_t>(layer);
    const nn::CacheSpec& spec = layout_.layers[i];
    const int64_t rows = int64_t{spec.num_kv_heads} * layout_.block_tokens;
    const auto copy = [&](const Region* region, int64_t dim) {
      if (region == nullptr) return;
      const int64_t bytes = rows * dim * size_of(layout_.type);
      copy_bytes(options_.device, region->data() + to * bytes, region->data() + from * bytes,
                 bytes);
    };
    copy(k_[i].get(), spec.k_dim);
    copy(v_[i].get(), spec.v_dim);
  }
}

StateSnapshot KvCache::save_state(const CacheAllocation& a) const {
  StateSnapshot snapshot;
  if (a.state_row < 0) return snapshot;
  snapshot.values.reserve(static_cast<size_t>(layout_.state_bytes) / sizeof(float));
  for (const auto& tensors : states_) {
    for (const Tensor& t : tensors) {
      const Tensor row = t.slice(0, a.state_row, a.state_row + 1);
      const Tensor host = row.to(Device{});
      const auto* data = static_cast<const float*>(std::as_const(host).raw());
      snapshot.values.insert(snapshot.values.end(), data, data + row.numel());
    }
  }
  return snapshot;
}

void KvCache::load_state(const CacheAllocation& a, const StateSnapshot& state) {
  MLXCEL_CHECK(a.state_row >= 0 && state.bytes() == layout_.state_bytes,
               "the snapshot does not fit the recurrent layers");
  size_t at = 0;
  for (const auto& tensors : states_) {
    for (const Tensor& t : tensors) {
      Tensor row = t.slice(0, a.state_row, a.state_row + 1);
      if (options_.device.kind == DeviceKind::Cpu) {
        std::memcpy(row.raw(), state.values.data() + at, static_cast<size_t>(row.bytes()));
      } else {
        device_runtime(options_.device).upload(row.raw(), state.values.data() + at, row.bytes());
      }
      at += static_cast<size_t>(row.numel());
    }
  }
}

int64_t KvCache::touched_bytes() const {
  int64_t sum = 0;
  for (size_t g = 0; g < pools_.size(); ++g) {
    sum += int64_t{pools_[g].num_minted()} * layout_.groups[g].block_bytes;
  }
  return sum;
}

ops::PagedKv KvCache::kv(int layer) const {
  const auto i = static_cast<size_t>(layer);
  const nn::CacheSpec& spec = layout_.layers.at(i);
  MLXCEL_CHECK(layout_.layer_group[i] >= 0, "this layer keeps no keys and values");
  return {.k = k_[i]->data(),
          .v = v_[i] ? v_[i]->data() : nullptr,
          .type = layout_.type,
          .device = options_.device,
          .num_blocks = blocks(layout_.layer_group[i]).capacity(),
          .block_tokens = layout_.block_tokens,
          .kv_heads = spec.num_kv_heads,
          .k_dim = spec.k_dim,
          .v_dim = spec.v_dim,
          .window = layout_.groups[static_cast<size_t>(layout_.layer_group[i])].window};
}

Tensor KvCache::state(int layer, int index) const {
  return states_.at(static_cast<size_t>(layer)).at(static_cast<size_t>(index));
}

StepCaches::StepCaches(const KvCache& cache) : cache_(&cache) {
  segments_.resize(cache.layout().groups.size());
}

void StepCaches::add(const CacheAllocation& a, int32_t row, int32_t q_len) {
  for (size_t g = 0; g < segments_.size(); ++g) {
    segments_[g].push_back(
        {.row = row, .q_len = q_len, .kv_len = a.num_tokens + q_len, .blocks = a.blocks[g].data()});
  }
}

void StepCaches::pad(int32_t count) {
  for (auto& group : segments_) group.resize(static_cast<size_t>(count));
}

void StepCaches::write_plans(int32_t num_rows, std::vector<int32_t>& out, int32_t table_words,
                             int32_t max_kv_len) {
  plan_sizes_.clear();
  plan_begins_.clear();
  for (const auto& group : segments_) {
    plan_begins_.push_back(out.size());
    ops::AttentionPlanSizes sizes =
        ops::write_attention_plan(group, num_rows, cache_->layout().block_tokens, out);
    sizes.max_kv_len = std::max(sizes.max_kv_len, max_kv_len);
    // Rows beyond those of a step belong to nobody: what they hold does not matter.
    if (table_words > 0) sizes.has_gaps = false;
    plan_sizes_.push_back(sizes);
    if (table_words > 0) {
      const size_t arrays = static_cast<size_t>(3 * num_rows) + 4 * group.size();
      out.resize(plan_begins_.back() + arrays + static_cast<size_t>(table_words), -1);
    }
  }
}

void StepCaches::bind_plans(const int32_t* base) {
  plans_.clear();
  for (size_t g = 0; g < plan_sizes_.size(); ++g) {
    plans_.push_back(ops::bind_attention_plan(plan_sizes_[g], base + plan_begins_[g]));
  }
}

ops::PagedKv StepCaches::kv(int layer) const {
  ops::PagedKv kv = cache_->kv(layer);
  if (!plans_.empty()) {
    const int32_t group = cache_->layout().layer_group.at(static_cast<size_t>(layer));
    kv.plan = &plans_[static_cast<size_t>(group)];
  }
  return kv;
}

std::span<const ops::AttentionSegment> StepCaches::segments(int layer) const {
  const int32_t group = cache_->layout().layer_group.at(static_cast<size_t>(layer));
  MLXCEL_CHECK(group >= 0, "this layer keeps no keys and values");
  return segments_[static_cast<size_t>(group)];
}

}  // namespace mlxcel::engine

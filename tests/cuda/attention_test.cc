#include <numeric>

#include "backend/ref/ref.h"
#include "cuda/support.h"
#include "ops/attention_plan.h"
#include "ops/op_table.h"

namespace mlxcel::testing {
namespace {

struct Case {
  DType cache;
  int32_t heads, kv_heads, k_dim, v_dim, block_tokens, length, window;
  float softcap;
  bool sinks;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {DType::F16, 9, 3, 64, 64, 32, 70, 0, 0, false},
      {DType::F32, 4, 4, 8, 8, 32, 33, 0, 0, false},
      {DType::BF16, 8, 2, 72, 80, 16, 150, 0, 0, true},
      {DType::F16, 4, 1, 128, 96, 32, 600, 0, 30.0F, false},
      {DType::F16, 2, 1, 192, 128, 8, 130, 17, 0, true},
      {DType::F32, 5, 1, 256, 256, 24, 1100, 300, 50.0F, false},
      {DType::BF16, 1, 1, 5, 3, 1, 20, 0, 0, false},
      {DType::F16, 100, 1, 16, 16, 32, 66, 1, 0, false},
      {DType::F16, 32, 8, 128, 128, 32, 700, 0, 0, false},
      {DType::BF16, 28, 4, 128, 128, 32, 333, 100, 0, true},
      {DType::F16, 8, 8, 64, 64, 32, 300, 0, 0, false},
      {DType::F16, 64, 2, 64, 64, 32, 200, 0, 20.0F, false},
  };
  return all;
}

// A cache on the GPU and its twin on the host, for one sequence with scrambled blocks; unwritten
// places hold NaN.
struct Cache {
  Cache(const Case& c, const Tensor& k_values, const Tensor& v_values) : k(k_values), v(v_values) {
    kv.type = c.cache;
    kv.kv_heads = c.kv_heads;
    kv.k_dim = c.k_dim;
    kv.v_dim = c.v_dim;
    kv.block_tokens = c.block_tokens;
    const int32_t count = (c.length + c.block_tokens - 1) / c.block_tokens;
    kv.num_blocks = count + 1;
    blocks.resize(static_cast<size_t>(count));
    std::iota(blocks.rbegin(), blocks.rend(), 0);
    const int64_t slots = int64_t{kv.num_blocks} * c.kv_heads * c.block_tokens;
    k_memory = Tensor::empty({slots * c.k_dim}, c.cache, kGpu);
    v_memory = Tensor::empty({slots * c.v_dim}, c.cache, kGpu);
    fill_bytes(kGpu, k_memory.raw(), 0xFF, k_memory.bytes());
    fill_bytes(kGpu, v_memory.raw(), 0xFF, v_memory.bytes());
    kv.k = k_memory.raw();
    kv.v = v_memory.raw();
    kv.device = kGpu;
  }
  ops::AttentionSegment segment(int32_t q_len, int32_t kv_len, int32_t row = 0) const {
    return {.row = row, .q_len = q_len, .kv_len = kv_len, .blocks = blocks.data()};
  }
  void append(int32_t begin, int32_t end) {
    const auto s = segment(end - begin, end);
    ops::kv_append(kv, {&s, 1}, k.slice(0, begin, end), v.slice(0, begin, end));
  }
  Tensor k, v;
  ops::PagedKv kv;
  std::vector<int32_t> blocks;
  Tensor k_memory, v_memory;
};

ops::AttentionOptions options_of(const Case& c, const Tensor& sinks) {
  return {
      .scale = 0.3F, .window = c.window, .softcap = c.softcap, .sinks = c.sinks ? &sinks : nullptr};
}

class GpuAttention : public Gpu {
 protected:
  template <class Fn>
  void for_cases(const Fn& fn) {
    for (const Case& c : cases()) {
      SCOPED_TRACE(::testing::Message() << dtype_name(c.cache) << " heads " << c.heads << "/"
                                        << c.kv_heads << " dims " << c.k_dim << "/" << c.v_dim
                                        << " length " << c.length << " window " << c.window);
      fn(c);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Types, GpuAttention, ::testing::Values(DType::F32, DType::BF16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST_P(GpuAttention, MatchesTheReference) {
  for_cases([&](const Case& c) {
    const Tensor k = rounded(random_tensor({c.length, c.kv_heads, c.k_dim}, 5));
    const Tensor v = rounded(random_tensor({c.length, c.kv_heads, c.v_dim}, 6));
    const Tensor q = rounded(random_tensor({c.length, c.heads, c.k_dim}, 7));
    const Tensor sinks = random_tensor({c.heads}, 8, 3.0F);
    Cache cache(c, to_gpu(k), to_gpu(v));
    cache.append(0, c.length);
    const auto s = cache.segment(c.length, c.length);
    const Tensor gpu_sinks = sinks.to(kGpu);
    const auto got = values(ops::attention(to_gpu(q), cache.kv, {&s, 1}, options_of(c, gpu_sinks)));
    // The reference reads a copy of what the GPU stored.
    const Tensor k_copy = cache.k_memory.to(Device{}), v_copy = cache.v_memory.to(Device{});
    std::vector<float> expected(got.size());
    ops::AttentionArgs a;
    a.kv = cache.kv;
    a.kv.k = const_cast<void*>(k_copy.raw());
    a.kv.v = const_cast<void*>(v_copy.raw());
    a.segments = {&s, 1};
    a.q = q.host<float>().data();
    a.q_stride = int64_t{c.heads} * c.k_dim;
    a.heads = c.heads;
    a.out = expected.data();
    a.scale = 0.3F;
    a.window = c.window;
    a.softcap = c.softcap;
    a.sinks = c.sinks ? sinks.host<float>().data() : nullptr;
    ref::attention(a);
    EXPECT_LT(relative_error(got, expected), tolerance(2e-5, 2.0));
  });
}

TEST_P(GpuAttention, PiecesAndNeighboursDoNotChangeABit) {
  for_cases([&](const Case& c) {
    const Tensor k = to_gpu(random_tensor({c.length, c.kv_heads, c.k_dim}, 5));
    const Tensor v = to_gpu(random_tensor({c.length, c.kv_heads, c.v_dim}, 6));
    const Tensor q = to_gpu(random_tensor({c.length, c.heads, c.k_dim}, 7));
    const Tensor sinks = random_tensor({c.heads}, 8, 3.0F).to(kGpu);
    const auto options = options_of(c, sinks);
    Cache whole(c, k, v);
    whole.append(0, c.length);
    const auto all = whole.segment(c.length, c.length);
    const auto expected = values(ops::attention(q, whole.kv, {&all, 1}, options));
    const auto row = static_cast<size_t>(c.heads * c.v_dim);
    for (const int32_t chunk : {1, 3, 50, 129}) {
      Cache cut(c, k, v);
      std::vector<float> got;
      for (int32_t at = 0; at < c.length; at += chunk) {
        // Single rows only near the ends: what lies between adds time, not cases.
        const int32_t end = std::min(at + chunk, c.length);
        cut.append(at, end);
        if (chunk == 1 && at > 40 && at < c.length - 20) continue;
        const auto s = cut.segment(end - at, end);
        const auto part = values(ops::attention(q.slice(0, at, end), cut.kv, {&s, 1}, options));
        EXPECT_TRUE(same_bits(
            part, std::span(expected).subspan(static_cast<size_t>(at) * row, part.size())))
            << "rows " << at << " to " << end;
      }
    }
    // Two segments in one batch: the first half as a prompt, the last row as a decoding step, and a
    // row between them that belongs to none.
    const int32_t half = c.length / 2;
    const ops::AttentionSegment both[] = {whole.segment(half, half, 0),
                                          whole.segment(1, c.length, half + 1)};
    Tensor rows = Tensor::empty({half + 2, c.heads, c.k_dim}, type(), kGpu);
    copy_bytes(kGpu, rows.raw(), q.raw(), rows.bytes());
    copy_bytes(kGpu, rows.slice(0, half + 1, half + 2).raw(),
               q.slice(0, c.length - 1, c.length).raw(), rows.bytes() / (half + 2));
    const auto mixed = values(ops::attention(rows, whole.kv, both, options));
    const auto used = static_cast<size_t>(half) * row;
    EXPECT_TRUE(same_bits(std::span(mixed).first(used), std::span(expected).first(used)));
    EXPECT_TRUE(same_bits(std::span(mixed).last(row), std::span(expected).last(row)));
    for (const float z : std::span(mixed).subspan(used, row)) EXPECT_EQ(z, 0.0F);
  });
}

TEST_P(GpuAttention, RotatingAndAppendingInOneLaunchIsTheSame) {
  const std::vector<float> frequencies = {1.0F, 0.3F, 0.1F, 0.03F, 0.01F, 0.003F, 0.001F, 0.0003F};
  const Tensor inv_freq = Tensor::of(frequencies, {8}).to(kGpu);
  for (const DType cache : {DType::F32, DType::F16, DType::BF16}) {
    for (const bool interleaved : {false, true}) {
      SCOPED_TRACE(::testing::Message() << dtype_name(cache) << " " << interleaved);
      const Case c{cache, 6, 2, 24, 40, 16, 50, 0, 0, false};  // 16 of 24 elements turn
      std::vector<int32_t> positions(static_cast<size_t>(c.length));
      std::iota(positions.begin(), positions.end(), 0);
      const Tensor at = Tensor::of(positions, {c.length}).to(kGpu);
      const Tensor v = to_gpu(random_tensor({c.length, c.kv_heads, c.v_dim}, 6));
      const auto run = [&](bool planned) {
        Tensor q = to_gpu(random_tensor({c.length, c.heads, c.k_dim}, 7));
        Tensor k = to_gpu(random_tensor({c.length, c.kv_heads, c.k_dim}, 5));
        Cache memory(c, k, v);
        const auto s = memory.segment(c.length, c.length);
        std::vector<int32_t> words;
        const auto sizes = ops::write_attention_plan({&s, 1}, c.length, c.block_tokens, words);
        const Tensor index = Tensor::of(words, {std::ssize(words)}).to(kGpu);
        const auto plan = ops::bind_attention_plan(sizes, static_cast<const int32_t*>(index.raw()));
        if (planned) memory.kv.plan = &plan;
        ops::rope_append(memory.kv, {&s, 1}, q, k, v, at, inv_freq, interleaved, 1.1F);
        std::vector<std::vector<uint8_t>> out;
        for (const Tensor& t : {q, memory.k_memory, memory.v_memory}) {
          const Tensor host = t.to(Device{});
          const auto* bytes = static_cast<const uint8_t*>(host.raw());
          out.emplace_back(bytes, bytes + host.bytes());
        }
        return out;
      };
      EXPECT_TRUE(run(true) == run(false));
    }
  }
}

}  // namespace
}  // namespace mlxcel::testing

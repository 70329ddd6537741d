// Results keep their bits whatever the number of threads, and no kernel writes outside its output.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/thread_pool.h"
#include "ops/kernel_table.h"
#include "ops/op_table.h"
#include "support.h"

namespace mlxcel::testing {
namespace {

class WithThreads {
 public:
  explicit WithThreads(int n) : pool_(n), before_(ThreadPool::replace_shared(&pool_)) {}
  ~WithThreads() { ThreadPool::replace_shared(before_); }
  WithThreads(const WithThreads&) = delete;
  WithThreads& operator=(const WithThreads&) = delete;

 private:
  ThreadPool pool_;
  ThreadPool* before_;
};

// `op` with one thread against two to four. Sizes must be above the kernels' limits for sharing.
void expect_same_for_all_counts(const std::function<Tensor()>& op) {
  Tensor alone;
  {
    const WithThreads one(1);
    alone = op();
  }
  for (const int threads : {2, 3, 4}) {
    const WithThreads more(threads);
    EXPECT_TRUE(same_bits(op().host<float>(), alone.host<float>())) << threads << " threads";
  }
}

std::vector<WeightFormat> formats() {
  std::vector<WeightFormat> out;
  for (const int bits : {1, 2, 3, 4, 5, 6, 8}) {
    out.push_back(affine_format(bits, 32, DType::F16, false));
    out.push_back(affine_format(bits, bits == 6 ? 16 : 64, DType::F32, true));
  }
  for (const int bits : {2, 3, 4, 5, 6}) out.push_back(k_quant_format(bits));
  for (const DType t : {DType::F32, DType::F16, DType::BF16, DType::F8E4M3}) {
    out.push_back(dense_format(t));
  }
  return out;
}

TEST(Threads, LinearKeepsItsBits) {
  for_each_level([] {
    for (const WeightFormat& format : formats()) {
      SCOPED_TRACE(format.str());
      const MemoryMatrix w(format, 1003, 512, 5);
      // Packed by one thread and by three: the bytes must agree too.
      std::shared_ptr<const ops::PackedMatrix> packed, other;
      {
        const WithThreads one(1);
        packed = ops::pack_matrix(w, {});
      }
      {
        const WithThreads three(3);
        other = ops::pack_matrix(w, {});
      }
      const auto* a = dynamic_cast<const ops::PlannedMatrix*>(packed.get());
      const auto* b = dynamic_cast<const ops::PlannedMatrix*>(other.get());
      EXPECT_EQ(std::memcmp(a->view().data, b->view().data, static_cast<size_t>(a->bytes())), 0);
      for (const int64_t m : {1, 5, 33}) {
        const Tensor x = random_tensor({m, 512}, 4);
        expect_same_for_all_counts([&] { return ops::linear(x, *packed); });
      }
      const std::vector<int32_t> ids = {1002, 0, 17};
      std::vector<int32_t> many;
      for (int i = 0; i < 200; ++i) many.insert(many.end(), ids.begin(), ids.end());
      const Tensor index = Tensor::of(many, {static_cast<int64_t>(many.size())});
      expect_same_for_all_counts([&] { return ops::gather_rows(*packed, index); });
    }
  });
}

TEST(Threads, NormsAndElementwiseKeepTheirBits) {
  for_each_level([] {
    const Tensor x = random_tensor({301, 1000}, 1, 3.0F);
    const Tensor other = random_tensor({301, 1000}, 2);
    const Tensor gain = random_tensor({1000}, 3);
    expect_same_for_all_counts([&] { return ops::rms_norm(x, gain, 1e-5F); });
    expect_same_for_all_counts([&] { return ops::layer_norm(x, gain, gain, 1e-5F); });
    expect_same_for_all_counts([&] { return ops::add_rms_norm(x, other, gain, 1e-5F).normed; });
    expect_same_for_all_counts([&] { return ops::silu_mul(x, other); });
    expect_same_for_all_counts([&] { return ops::activate(x, ops::Activation::Gelu); });
    expect_same_for_all_counts([&] { return ops::softcap(x, 20.0F); });
  });
}

TEST(Threads, AttentionKeepsItsBits) {
  for_each_level([] {
    constexpr int32_t kLength = 1300;
    const Tensor k = random_tensor({kLength, 2, 64}, 5), v = random_tensor({kLength, 2, 64}, 6);
    ops::PagedKv kv;
    kv.type = DType::F16;
    kv.kv_heads = 2;
    kv.k_dim = kv.v_dim = 64;
    kv.num_blocks = (kLength + kv.block_tokens - 1) / kv.block_tokens;
    std::vector<int32_t> blocks(static_cast<size_t>(kv.num_blocks));
    std::iota(blocks.rbegin(), blocks.rend(), 0);
    const auto bytes =
        static_cast<size_t>(kv.num_blocks) * static_cast<size_t>(kv.block_tokens) * 2 * 64 * 2;
    std::vector<uint8_t> first;
    for (const int threads : {1, 2, 3, 4}) {
      const WithThreads pool(threads);
      std::vector<uint8_t> k_memory(bytes), v_memory(bytes);
      kv.k = k_memory.data();
      kv.v = v_memory.data();
      const ops::AttentionSegment s{
          .row = 0, .q_len = kLength, .kv_len = kLength, .blocks = blocks.data()};
      ops::kv_append(kv, {&s, 1}, k, v);
      if (first.empty()) first = k_memory;
      EXPECT_EQ(first, k_memory);
      for (const int32_t q_len : {1, 2, 40}) {
        const Tensor q = random_tensor({q_len, 8, 64}, 7);
        const ops::AttentionSegment part{
            .row = 0, .q_len = q_len, .kv_len = kLength, .blocks = blocks.data()};
        expect_same_for_all_counts(
            [&] { return ops::attention(q, kv, {&part, 1}, {.scale = 0.125F}); });
      }
    }
  });
}

// An output of n floats between two bands; a write into either shows.
class Guarded {
 public:
  explicit Guarded(int64_t n)
      : n_(static_cast<size_t>(n)), memory_(n_ * sizeof(float) + 2 * kBand, kMark) {}
  float* data() { return reinterpret_cast<float*>(memory_.data() + kBand); }
  void expect_intact() {
    const auto is_mark = [](uint8_t b) { return b == kMark; };
    EXPECT_TRUE(std::all_of(memory_.begin(), memory_.begin() + kBand, is_mark)) << "before";
    EXPECT_TRUE(std::all_of(memory_.end() - kBand, memory_.end(), is_mark)) << "after";
    // Every element was written: the mark is no value that a test computes.
    for (size_t i = 0; i < n_; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, data() + i, 4);
      EXPECT_NE(bits, 0xA5A5A5A5U) << "element " << i << " of " << n_;
    }
  }

 private:
  static constexpr ptrdiff_t kBand = 256;
  static constexpr uint8_t kMark = 0xA5;
  size_t n_;
  std::vector<uint8_t> memory_;
};

TEST(Guards, LinearAndGatherWriteOnlyTheirOutput) {
  for_each_level([] {
    for (const WeightFormat& format : formats()) {
      for (const int64_t rows : {1, 15, 17, 40}) {
        SCOPED_TRACE(::testing::Message() << format.str() << " " << rows << " rows");
        const MemoryMatrix w(format, rows, 256, 3);
        const auto packed = ops::pack_matrix(w, {});
        const auto& matrix = dynamic_cast<const ops::PlannedMatrix&>(*packed);
        const Tensor bias = random_tensor({rows}, 9);
        for (const int64_t m : {1, 2, 3, 8, 9, 13, 31}) {
          const Tensor x = random_tensor({m, 256}, 4);
          Guarded out(m * rows);
          matrix.plan().kernel_for(m).run({.x = x.host<float>().data(),
                                           .x_stride = 256,
                                           .y = out.data(),
                                           .y_stride = rows,
                                           .m = m,
                                           .bias = bias.host<float>().data(),
                                           .w = matrix.view()});
          out.expect_intact();
        }
        const int32_t last = static_cast<int32_t>(rows - 1);
        Guarded row(256);
        matrix.packing().gather({.ids = &last, .count = 1, .out = row.data(), .w = matrix.view()});
        row.expect_intact();
      }
    }
  });
}

ops::RowView rows_of(const Tensor& t) {
  return {.data = t.host<float>().data(),
          .outer = t.dim(0),
          .inner = 1,
          .outer_stride = t.dim(1),
          .dim = t.dim(1)};
}

TEST(Guards, RowOpsWriteOnlyTheirOutput) {
  for_each_level([] {
    const ops::OpTable& table = ops::op_table(DeviceKind::Cpu);
    for (const int64_t n : {1, 7, 8, 15, 17, 33, 100}) {
      SCOPED_TRACE(n);
      const Tensor a = random_tensor({3, n}, 1), b = random_tensor({3, n}, 2);
      const auto check = [&](auto&& run) {
        Guarded out(3 * n);
        run(out.data());
        out.expect_intact();
      };
      check([&](float* out) { table.add({.a = rows_of(a), .b = rows_of(b), .out = out}); });
      check([&](float* out) { table.mul({.a = rows_of(a), .b = rows_of(b), .out = out}); });
      check([&](float* out) { table.silu_mul({.a = rows_of(a), .b = rows_of(b), .out = out}); });
      check([&](float* out) { table.scale({.x = rows_of(a), .out = out, .parameter = 2}); });
      check([&](float* out) { table.softcap({.x = rows_of(a), .out = out, .parameter = 2}); });
      check([&](float* out) { table.copy_rows({.x = rows_of(a), .out = out}); });
      for (const auto kind : {ops::Activation::Silu, ops::Activation::Gelu,
                              ops::Activation::GeluTanh, ops::Activation::Relu}) {
        check([&](float* out) { table.activate({.x = rows_of(a), .out = out, .kind = kind}); });
      }
      Guarded sum(3 * n);
      ops::NormArgs norm;
      norm.x = rows_of(a);
      norm.eps = 1e-5F;
      check([&](float* out) { norm.out = out, table.layer_norm(norm); });
      norm.delta = rows_of(b);
      norm.sum = sum.data();
      check([&](float* out) { norm.out = out, table.rms_norm(norm); });
      sum.expect_intact();
      const int32_t ids[] = {2, 0, 1};
      check([&](float* out) {
        table.take_rows({.x = rows_of(a), .ids = ids, .count = 3, .out = out});
      });
    }
  });
}

TEST(Guards, AttentionWritesOnlyItsOutput) {
  for_each_level([] {
    for (const int32_t dim : {5, 64, 72}) {
      ops::PagedKv kv;
      kv.type = DType::F32;
      kv.kv_heads = 1;
      kv.k_dim = kv.v_dim = dim;
      kv.num_blocks = 2;
      kv.block_tokens = 32;
      Guarded k_memory(64 * dim), v_memory(64 * dim);
      kv.k = k_memory.data();
      kv.v = v_memory.data();
      const int32_t blocks[] = {1, 0};
      const ops::AttentionSegment all{.row = 0, .q_len = 64, .kv_len = 64, .blocks = blocks};
      const Tensor values = random_tensor({64, 1, dim}, 3);
      ops::kv_append(kv, {&all, 1}, values, values);
      k_memory.expect_intact();
      v_memory.expect_intact();
      for (const int32_t q_len : {1, 3, 64}) {
        SCOPED_TRACE(::testing::Message() << dim << " wide, " << q_len << " rows");
        const Tensor q = random_tensor({q_len, 3, dim}, 4);
        const ops::AttentionSegment s{.row = 0, .q_len = q_len, .kv_len = 64, .blocks = blocks};
        Guarded out(int64_t{q_len} * 3 * dim);
        ops::AttentionArgs args;
        args.kv = kv;
        args.segments = {&s, 1};
        args.q = q.host<float>().data();
        args.q_stride = 3 * int64_t{dim};
        args.heads = 3;
        args.out = out.data();
        ops::op_table(DeviceKind::Cpu).attention(args);
        out.expect_intact();
      }
    }
  });
}

}  // namespace
}  // namespace mlxcel::testing

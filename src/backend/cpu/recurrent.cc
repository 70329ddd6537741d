// Drivers of the recurrent ops. Threads share channels or the value elements of heads, never the
// tokens of a sequence; every thread walks all segments, so long and short ones balance.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backend/cpu/cpu.h"
#include "backend/cpu/recurrent_kernels.h"
#include "base/thread_pool.h"
#include "ops/isa.h"

namespace mlxcel::cpu {
namespace {

// Elements below which one thread is faster than waking the others.
constexpr int64_t kMinParallel = 32 * 1024;

const RecurrentKernels& kernels() {
#if defined(__x86_64__)
  if (ops::cpu_level() == ops::Isa::Avx512) return kRecurrentAvx512;
  if (ops::cpu_level() == ops::Isa::Avx2) return kRecurrentAvx2;
#endif
  return kRecurrentScalar;
}

/// Calls fn(item) for `items` of a loop whose whole cost is `cost`.
template <class Fn>
void for_items(int64_t items, int64_t cost, const Fn& fn) {
  const auto range = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fn(i);
  };
  if (cost < kMinParallel) {
    range(0, items);
  } else {
    ThreadPool::shared().parallel_for(items, 1, range);
  }
}

int64_t tokens_of(ops::StateSegments segments) {
  int64_t sum = 0;
  for (const ops::StateSegment& s : segments) sum += s.q_len;
  return sum;
}

/// Channels of all segments; `cost` is that of one channel of one token.
template <class Args, class Kernel>
void over_channels(const Args& a, int64_t channels, int64_t cost, Kernel kernel) {
  const int64_t block = kernels().block;
  const int64_t blocks = (channels + block - 1) / block;
  for_items(blocks, tokens_of(a.segments) * channels * cost, [&](int64_t i) {
    const int64_t end = std::min(channels, (i + 1) * block);
    for (const ops::StateSegment& s : a.segments) {
      if (s.q_len > 0) kernel(a, s, i * block, end);
    }
  });
}

/// Value elements of all heads of all segments; `cost` is that of one element of one token.
template <class Args, class Kernel>
void over_heads(const Args& a, int64_t v_dim, int64_t cost, Kernel kernel) {
  const int64_t block = kernels().block;
  const int64_t blocks = (v_dim + block - 1) / block;
  for_items(a.heads * blocks, tokens_of(a.segments) * a.heads * v_dim * cost, [&](int64_t i) {
    const int64_t begin = i % blocks * block;
    for (const ops::StateSegment& s : a.segments) {
      if (s.q_len > 0) kernel(a, s, i / blocks, begin, std::min(v_dim, begin + block));
    }
  });
}

template <auto kMember, int64_t kCost>
void columns(const ops::ColumnArgs& a) {
  const auto fn = kernels().*kMember;
  for_items(a.tokens, a.tokens * a.dim * kCost, [&](int64_t t) { fn(a, t); });
}

}  // namespace

void register_recurrent(ops::RecurrentTable& t) {
  t.causal_conv1d = [](const ops::ConvArgs& a) {
    over_channels(a, a.channels, a.outputs * a.taps, kernels().conv);
  };
  t.selective_scan = [](const ops::SelectiveScanArgs& a) {
    over_channels(a, a.channels, 4 * a.states, kernels().selective);
  };
  t.rg_lru_scan = [](const ops::RgLruArgs& a) { over_channels(a, a.width, 16, kernels().rg_lru); };
  t.ssd_scan = [](const ops::SsdArgs& a) { over_heads(a, a.head_dim, a.states, kernels().ssd); };
  t.delta_scan = [](const ops::DeltaArgs& a) {
    over_heads(a, a.v_dim, 2 * a.k_dim, kernels().delta);
  };
  t.rwkv7_scan = [](const ops::Rwkv7Args& a) { over_heads(a, a.dim, 2 * a.dim, kernels().rwkv7); };
  t.softplus = columns<&RecurrentKernels::softplus, 8>;
  t.softplus_decay = columns<&RecurrentKernels::softplus_decay, 8>;
  t.scale_columns = columns<&RecurrentKernels::scale_columns, 1>;
  t.block_linear = [](const ops::BlockLinearArgs& a) {
    const auto fn = kernels().block_linear;
    // Head by head, so that the matrix of one stays in the cache over all tokens.
    for_items(a.heads * a.tokens, a.tokens * a.heads * a.out_dim * a.in,
              [&](int64_t i) { fn(a, i % a.tokens, i / a.tokens); });
  };
  t.join_columns = [](const ops::JoinArgs& a) {
    const int64_t wide = a.a_dim + a.b_dim;
    for_items(a.tokens, a.tokens * wide, [&](int64_t i) {
      std::memcpy(a.out + i * wide, a.a.row(i), static_cast<size_t>(a.a_dim) * sizeof(float));
      std::memcpy(a.out + i * wide + a.a_dim, a.b.row(i),
                  static_cast<size_t>(a.b_dim) * sizeof(float));
    });
  };
  t.head_dot_scale = [](const ops::HeadDotArgs& a) {
    const auto fn = kernels().head_dot_scale;
    for_items(a.tokens, a.tokens * a.heads * a.dim, [&](int64_t row) { fn(a, row); });
  };
}

}  // namespace mlxcel::cpu

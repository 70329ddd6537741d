// Drivers of norms, element-wise ops, rotary embedding and cache writes: rows are split among
// threads when there is enough work.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "backend/cpu/cpu.h"
#include "backend/cpu/vector_kernels.h"
#include "base/thread_pool.h"
#include "tensor/buffer.h"

namespace mlxcel::cpu {
namespace {

using ops::RowView;

// Elements below which one thread is faster than waking the others.
constexpr int64_t kMinParallel = 32 * 1024;

// Calls fn(row) for every row; `weight` is the cost of an element relative to an addition.
template <class Fn>
void for_rows(const RowView& x, int64_t weight, const Fn& fn) {
  const auto range = [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) fn(r);
  };
  if (x.rows() * x.dim * weight < kMinParallel) {
    range(0, x.rows());
  } else {
    ThreadPool::shared().parallel_for(x.rows(), 1, range);
  }
}

void rms_norm(const ops::NormArgs& a) {
  const VectorKernels& k = vector_kernels();
  for_rows(a.x, 1, [&](int64_t r) {
    k.rms_norm({.x = a.x.row(r),
                .delta = a.delta.data != nullptr ? a.delta.row(r) : nullptr,
                .gain = a.gain,
                .bias = nullptr,
                .sum = a.sum != nullptr ? a.sum + r * a.x.dim : nullptr,
                .out = a.out + r * a.x.dim,
                .n = a.x.dim,
                .eps = a.eps,
                .offset = a.offset});
  });
}

void layer_norm(const ops::NormArgs& a) {
  const VectorKernels& k = vector_kernels();
  for_rows(a.x, 2, [&](int64_t r) {
    k.layer_norm({.x = a.x.row(r),
                  .delta = nullptr,
                  .gain = a.gain,
                  .bias = a.bias,
                  .sum = nullptr,
                  .out = a.out + r * a.x.dim,
                  .n = a.x.dim,
                  .eps = a.eps,
                  .offset = 0.0F});
  });
}

template <auto kMember, int64_t kWeight>
void binary(const ops::BinaryArgs& a) {
  const auto fn = vector_kernels().*kMember;
  for_rows(a.a, kWeight,
           [&](int64_t r) { fn(a.a.row(r), a.b.row(r), a.out + r * a.a.dim, a.a.dim); });
}

template <auto kMember, int64_t kWeight>
void unary(const ops::UnaryArgs& a) {
  const auto fn = vector_kernels().*kMember;
  for_rows(a.x, kWeight,
           [&](int64_t r) { fn(a.x.row(r), a.parameter, a.out + r * a.x.dim, a.x.dim); });
}

void activate(const ops::UnaryArgs& a) {
  const VectorKernels& k = vector_kernels();
  for_rows(a.x, 8,
           [&](int64_t r) { k.activate(a.x.row(r), a.kind, a.out + r * a.x.dim, a.x.dim); });
}

void xielu(const ops::XieluArgs& a) {
  const VectorKernels& k = vector_kernels();
  for_rows(a.x, 8,
           [&](int64_t r) { k.xielu(a.x.row(r), a.options, a.out + r * a.x.dim, a.x.dim); });
}

void position_factors(const ops::PositionFactorsArgs& a) {
  for (int64_t i = 0; i < a.count; ++i) {
    const auto turns = static_cast<float>(a.positions[i] / a.period);
    a.out[i] = 1.0F + a.beta * std::log(1.0F + turns);
  }
}

void copy_rows(const ops::UnaryArgs& a) {
  for_rows(a.x, 1, [&](int64_t r) {
    std::memcpy(a.out + r * a.x.dim, a.x.row(r), static_cast<size_t>(a.x.dim) * 4);
  });
}

void argmax_rows(const ops::ArgmaxArgs& a) {
  ThreadPool::shared().parallel_for(a.x.rows(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const std::span<const float> x(a.x.row(r), static_cast<size_t>(a.x.dim));
      const auto best = std::ranges::max_element(x);
      const bool found = best != x.end() && *best > -std::numeric_limits<float>::infinity() &&
                         std::ranges::none_of(x, [](float v) { return std::isnan(v); });
      a.out[r] = found ? static_cast<int32_t>(best - x.begin()) : -1;
    }
  });
}

void take_rows(const ops::TakeRowsArgs& a) {
  for (int64_t i = 0; i < a.count; ++i) {
    std::memcpy(a.out + i * a.x.dim, a.x.row(a.ids[i]), static_cast<size_t>(a.x.dim) * 4);
  }
}

void rope(const ops::RopeArgs& a) {
  const VectorKernels& k = vector_kernels();
  const auto tokens = [&](int64_t begin, int64_t end) {
    const auto memory = Buffer::host(2 * a.half * 4);
    auto* cosines = static_cast<float*>(memory->data());
    float* sines = cosines + a.half;
    for (int64_t t = begin; t < end; ++t) {
      k.rope_angles(a.positions[t], a.frequencies(a.positions[t]), a.half, a.attention_factor,
                    cosines, sines);
      for (int64_t h = 0; h < a.heads; ++h) {
        k.rope_rotate(a.x + t * a.x_stride + h * a.head_dim, cosines, sines, a.half, a.interleaved);
      }
    }
  };
  if (a.tokens * a.heads * a.head_dim < kMinParallel) {
    tokens(0, a.tokens);
  } else {
    ThreadPool::shared().parallel_for(a.tokens, 1, tokens);
  }
}

// Row `position` of head h in a cache half with `dim` elements a position.
int64_t cache_offset(const ops::PagedKv& kv, const ops::AttentionSegment& s, int64_t position,
                     int64_t h, int64_t dim) {
  const int64_t block = s.blocks[position / kv.block_tokens];
  return ((block * kv.kv_heads + h) * kv.block_tokens + position % kv.block_tokens) * dim;
}

void kv_append(const ops::KvAppendArgs& a) {
  const VectorKernels& kernels = vector_kernels();
  const int64_t size = size_of(a.kv.type);
  for (const ops::AttentionSegment& s : a.segments) {
    const auto tokens = [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t position = s.kv_len - s.q_len + t;
        const float* k = a.k + (s.row + t) * a.k_stride;
        const float* v = a.kv.v != nullptr ? a.v + (s.row + t) * a.v_stride : nullptr;
        for (int64_t h = 0; h < a.kv.kv_heads; ++h) {
          kernels.narrow(
              a.kv.type, k + h * a.kv.k_dim,
              static_cast<uint8_t*>(a.kv.k) + cache_offset(a.kv, s, position, h, a.kv.k_dim) * size,
              a.kv.k_dim);
          if (v == nullptr) continue;
          kernels.narrow(
              a.kv.type, v + h * a.kv.v_dim,
              static_cast<uint8_t*>(a.kv.v) + cache_offset(a.kv, s, position, h, a.kv.v_dim) * size,
              a.kv.v_dim);
        }
      }
    };
    if (int64_t{s.q_len} * a.kv.kv_heads * (a.kv.k_dim + a.kv.v_dim) < kMinParallel) {
      tokens(0, s.q_len);
    } else {
      ThreadPool::shared().parallel_for(s.q_len, 1, tokens);
    }
  }
}

}  // namespace

const VectorKernels& vector_kernels() {
#if defined(__x86_64__)
  if (ops::cpu_level() >= ops::Isa::Avx512) return kVectorAvx512;
  if (ops::cpu_level() == ops::Isa::Avx2) return kVectorAvx2;
#endif
  return kVectorScalar;
}

void register_ops(ops::OpTable& table) {
  table.rms_norm = rms_norm;
  table.layer_norm = layer_norm;
  table.add = binary<&VectorKernels::add, 1>;
  table.mul = binary<&VectorKernels::mul, 1>;
  table.silu_mul = binary<&VectorKernels::silu_mul, 8>;
  table.scale = unary<&VectorKernels::scale, 1>;
  table.softcap = unary<&VectorKernels::softcap, 8>;
  table.clamp = unary<&VectorKernels::clamp, 1>;
  table.xielu = xielu;
  table.position_factors = position_factors;
  table.activate = activate;
  table.copy_rows = copy_rows;
  table.take_rows = take_rows;
  table.argmax_rows = argmax_rows;
  table.rope = rope;
  table.kv_append = kv_append;
  table.attention = attention;
  register_recurrent(table.recurrent);
}

}  // namespace mlxcel::cpu

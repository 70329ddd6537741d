#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/ref/ref.h"
#include "tensor/dtype.h"

namespace mlxcel::ref {
namespace {

int64_t slot(const ops::PagedKv& kv, const ops::AttentionSegment& s, int64_t position, int64_t h) {
  const int64_t block = s.blocks[position / kv.block_tokens];
  return (block * kv.kv_heads + h) * kv.block_tokens + position % kv.block_tokens;
}

std::vector<float> read(DType type, const void* base, int64_t at, int64_t dim) {
  std::vector<float> out(static_cast<size_t>(dim));
  convert_to_f32(type, static_cast<const char*>(base) + at * dim * size_of(type), out.data(), dim);
  return out;
}

}  // namespace

void kv_append(const ops::KvAppendArgs& a) {
  const int64_t size = size_of(a.kv.type);
  for (const ops::AttentionSegment& s : a.segments) {
    for (int64_t t = 0; t < s.q_len; ++t) {
      for (int64_t h = 0; h < a.kv.kv_heads; ++h) {
        const int64_t at = slot(a.kv, s, s.kv_len - s.q_len + t, h);
        convert_from_f32(a.kv.type, a.k + (s.row + t) * a.k_stride + h * a.kv.k_dim,
                         static_cast<char*>(a.kv.k) + at * a.kv.k_dim * size, a.kv.k_dim);
        if (a.kv.v == nullptr) continue;
        convert_from_f32(a.kv.type, a.v + (s.row + t) * a.v_stride + h * a.kv.v_dim,
                         static_cast<char*>(a.kv.v) + at * a.kv.v_dim * size, a.kv.v_dim);
      }
    }
  }
}

void attention(const ops::AttentionArgs& a) {
  const int64_t group = a.heads / a.kv.kv_heads;
  for (const ops::AttentionSegment& s : a.segments) {
    for (int64_t t = 0; t < s.q_len; ++t) {
      const int64_t position = s.kv_len - s.q_len + t;
      const int64_t first = a.window > 0 ? std::max<int64_t>(0, position - a.window + 1) : 0;
      for (int64_t h = 0; h < a.heads; ++h) {
        const float* q = a.q + (s.row + t) * a.q_stride + h * a.kv.k_dim;
        std::vector<double> scores;
        double best = a.sinks != nullptr ? static_cast<double>(a.sinks[h])
                                         : -std::numeric_limits<double>::infinity();
        for (int64_t p = first; p <= position; ++p) {
          const auto k = read(a.kv.type, a.kv.k, slot(a.kv, s, p, h / group), a.kv.k_dim);
          double score = 0;
          for (size_t d = 0; d < k.size(); ++d) {
            score += static_cast<double>(q[d]) * static_cast<double>(k[d]);
          }
          score *= static_cast<double>(a.scale);
          const auto cap = static_cast<double>(a.softcap);
          if (cap > 0) score = cap * std::tanh(score / cap);
          best = std::max(best, score);
          scores.push_back(score);
        }
        double total = a.sinks != nullptr ? std::exp(static_cast<double>(a.sinks[h]) - best) : 0.0;
        std::vector<double> sum(static_cast<size_t>(a.kv.v_dim));
        for (int64_t p = first; p <= position; ++p) {
          const double e = std::exp(scores[static_cast<size_t>(p - first)] - best);
          const int64_t at = slot(a.kv, s, p, h / group);
          const auto v = a.kv.v != nullptr ? read(a.kv.type, a.kv.v, at, a.kv.v_dim)
                                           : read(a.kv.type, a.kv.k, at, a.kv.k_dim);
          total += e;
          for (size_t d = 0; d < sum.size(); ++d) sum[d] += e * static_cast<double>(v[d]);
        }
        float* out = a.out + ((s.row + t) * a.heads + h) * a.kv.v_dim;
        for (size_t d = 0; d < sum.size(); ++d) out[d] = static_cast<float>(sum[d] / total);
      }
    }
  }
}

}  // namespace mlxcel::ref

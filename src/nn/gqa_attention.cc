#include "nn/gqa_attention.h"

#include <cmath>

#include "base/error.h"
#include "nn/attention.h"
#include "ops/experts.h"

namespace mlxcel::nn {
namespace {

/// Rows [begin, begin + count) of each of `groups` groups of `stride` rows.
std::vector<RowRange> rows_of_groups(int64_t groups, int64_t stride, int64_t begin, int64_t count) {
  std::vector<RowRange> rows;
  for (int64_t g = 0; g < groups; ++g) rows.push_back({g * stride + begin, count});
  return rows;
}

/// Queries, keys, values (unless they are the keys) and gates, in this order.
std::vector<StackedLinear::Part> projections(const GqaOptions& o, const io::Weights& w) {
  const int64_t q = o.num_heads * o.head_dim, kv = o.num_kv_heads * o.head_dim;
  const auto part = [&](std::string_view name, int64_t size) {
    return StackedLinear::Part{.weights = w.at(name), .out_features = size, .bias = o.qkv_bias};
  };
  const auto fused = [&](int64_t size, std::vector<RowRange> rows) {
    StackedLinear::Part p = part(o.fused_name, size);
    p.rows = std::move(rows);
    p.stored_rows = q + 2 * kv;
    return p;
  };
  if (o.layout == QkvLayout::Grouped) {
    const int64_t queries = q / o.num_kv_heads, stride = queries + 2 * o.head_dim;
    const auto rows = [&](int64_t begin, int64_t count) {
      return rows_of_groups(o.num_kv_heads, stride, begin, count);
    };
    return {fused(q, rows(0, queries)), fused(kv, rows(queries, o.head_dim)),
            fused(kv, rows(queries + o.head_dim, o.head_dim))};
  }
  if (w.has(o.fused_name)) {
    return {fused(q, {{0, q}}), fused(kv, {{q, kv}}), fused(kv, {{q + kv, kv}})};
  }
  std::vector<StackedLinear::Part> parts = {part("q_proj", q)};
  if (o.shared_from < 0) {
    parts.push_back(part("k_proj", kv));
    if (!o.value_is_key) parts.push_back(part("v_proj", kv));
  }
  if (o.output_gate) {
    StackedLinear::Part gate = part("q_proj", q);
    parts[0].stored_rows = gate.stored_rows = 2 * q;
    parts[0].rows = rows_of_groups(o.num_heads, 2 * o.head_dim, 0, o.head_dim);
    gate.rows = rows_of_groups(o.num_heads, 2 * o.head_dim, o.head_dim, o.head_dim);
    parts.push_back(std::move(gate));
  }
  return parts;
}

/// Checkpoints may carry the projections of a layer that uses another one's keys and values: they
/// count as seen and are not read.
void set_aside_keys(const GqaOptions& o, const io::Weights& w) {
  const int64_t kv = o.num_kv_heads * o.head_dim;
  for (const char* name : {"k_proj", "v_proj"}) {
    if (w.has(name)) (void)w.at(name).take_matrix(kv, o.hidden_size);
  }
  if (w.has("k_norm")) (void)w.at("k_norm").take("weight", Shape{o.head_dim});
}

/// All heads of every token as one row: [T, H, Dh] -> [T, 1, H * Dh].
Tensor joined(const Tensor& x) { return x.view({x.dim(0), 1, x.dim(1) * x.dim(2)}); }

}  // namespace

CacheSpec GqaOptions::cache() const {
  if (shared_from >= 0) return {};
  return window > 0 ? CacheSpec::sliding(num_kv_heads, head_dim, window)
                    : CacheSpec::full(num_kv_heads, head_dim);
}

GqaAttention::GqaAttention(const GqaOptions& options, const io::Weights& w, int layer)
    : options_(options),
      layer_(layer),
      qkv_(projections(options, w), options.hidden_size, Parallel::Column),
      o_(w.at(options.o_name), options.num_heads * options.head_dim, options.hidden_size,
         Parallel::Row, options.o_bias) {
  if (options_.scale == 0.0F) {
    options_.scale = 1.0F / std::sqrt(static_cast<float>(options.head_dim));
  }
  const int64_t head_dim = options.head_dim;
  const bool own_keys = options.shared_from < 0;
  if (!own_keys) set_aside_keys(options, w);
  if (const auto& norm = options.qk_norm) {
    const auto make = [&](auto& each_head, auto& plain, std::string_view name, int64_t heads) {
      if (norm->span == QkNorm::Span::EachHead) {
        each_head.emplace(w.at(name), heads, head_dim, norm->norm);
      } else {
        const bool all = norm->span == QkNorm::Span::Projection;
        plain.emplace(w.at(name), all ? heads * head_dim : head_dim, norm->norm);
      }
    };
    make(q_head_norm_, q_norm_, norm->q, options.num_heads);
    if (own_keys) make(k_head_norm_, k_norm_, norm->k, options.num_kv_heads);
  }
  if (options.v_norm && own_keys) v_norm_.emplace(w.at("v_norm"), head_dim, *options.v_norm);
  if (options.has_sinks) sinks_ = w.take_f32("sinks", Shape{options.num_heads}).to(w.device());
}

GqaAttention::Projected GqaAttention::project(const Tensor& x) const {
  std::vector<Tensor> heads = qkv_.heads(x, options_.head_dim);
  Projected p;
  p.q = heads[0];
  if (options_.shared_from < 0) {
    p.k = heads[1];
    // The rotation works in place, so values that are keys need a copy of their own.
    p.v = options_.value_is_key ? ops::scale(heads[1], 1.0F) : heads[2];
  }
  if (options_.output_gate) {
    const Tensor& gate = heads.back();  // [T, H, Dh]
    p.gate = ops::sigmoid(gate).view({-1, options_.num_heads * options_.head_dim});
  }
  return p;
}

void GqaAttention::norm_queries_and_keys(Tensor& q, Tensor& k) const {
  const bool all = options_.qk_norm->span == QkNorm::Span::Projection;
  const auto run = [&](const auto& each_head, const auto& plain, Tensor& t) {
    if (!t) return;
    if (each_head) {
      t = (*each_head)(t);
    } else {
      const int64_t heads = t.dim(1);
      t = (*plain)(all ? joined(t) : t).view({-1, heads, options_.head_dim});
    }
  };
  run(q_head_norm_, q_norm_, q);
  run(k_head_norm_, k_norm_, k);
}

Tensor GqaAttention::operator()(const Tensor& x, const Batch& batch) const {  // [T, D] -> [T, D]
  auto [q, k, v, gate] = project(x);  // [T, H, Dh], [T, Hk, Dh] twice, [T, H * Dh]
  const bool norm_last = options_.qk_norm && options_.qk_norm->after_rope;
  if (options_.qk_norm && !norm_last) norm_queries_and_keys(q, k);
  if (v_norm_) v = (*v_norm_)(v);
  if (options_.clip_qkv > 0.0F) {
    for (Tensor* t : {&q, &k, &v}) {
      if (*t) *t = ops::clamp(*t, options_.clip_qkv);
    }
  }
  const bool own_keys = options_.shared_from < 0;
  const bool rotate_last = options_.rope && own_keys && !norm_last && !options_.value_is_key &&
                           options_.rope->prompt_regime() == 0;
  if (options_.rope && !rotate_last) options_.rope->apply(q, k, batch);
  if (norm_last) norm_queries_and_keys(q, k);
  if (options_.position_beta != 0.0F) {
    const Tensor factors = ops::position_factors(batch.positions, options_.position_beta,
                                                 options_.position_period);  // [T]
    const int64_t heads = q.dim(1);
    q = ops::scale_rows(q.view({q.dim(0), heads * q.dim(2)}), factors)
            .view({-1, heads, options_.head_dim});
  }
  const ops::AttentionOptions how{.scale = options_.scale,
                                  .window = options_.window,
                                  .softcap = options_.softcap,
                                  .sinks = sinks_ ? &sinks_ : nullptr};
  Tensor o;  // [T, H, Dh]
  if (rotate_last) {
    o = rotated_attention(batch, layer_, *options_.rope, q, k, v, how);
  } else if (own_keys) {
    o = attention(batch, layer_, q, k, v, how);
  } else {
    o = shared_attention(batch, options_.shared_from, q, how);
  }
  o = o.view({-1, options_.num_heads * options_.head_dim});
  if (gate) o = ops::mul(o, gate);
  return o_(o);
}

int64_t GqaAttention::weight_bytes() const {
  int64_t total = qkv_.weight_bytes() + o_.weight_bytes() + (sinks_ ? sinks_.bytes() : 0);
  for (const auto* norm : {&q_norm_, &k_norm_, &v_norm_}) {
    if (*norm) total += (*norm)->weight_bytes();
  }
  for (const auto* norm : {&q_head_norm_, &k_head_norm_}) {
    if (*norm) total += (*norm)->weight_bytes();
  }
  return total;
}

}  // namespace mlxcel::nn

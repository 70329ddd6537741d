#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "ops/attention_plan.h"
#include "ops/check.h"
#include "ops/op_table.h"
#include "ops/ops.h"

namespace mlxcel::ops {
namespace {

void check_cache(std::string_view op, const PagedKv& kv) {
  const bool type_ok = kv.type == DType::F32 || kv.type == DType::F16 || kv.type == DType::BF16;
  if (!type_ok) bad_argument(op, fmt::format("a cache of {}", dtype_name(kv.type)));
  if (kv.k == nullptr || kv.num_blocks < 1 || kv.block_tokens < 1 || kv.kv_heads < 1 ||
      kv.k_dim < 1 || kv.v_dim < 1) {
    bad_argument(op, "the cache is empty");
  }
  if (kv.v == nullptr && kv.v_dim > kv.k_dim) {
    bad_argument(op, fmt::format("values of {} elements inside keys of {}", kv.v_dim, kv.k_dim));
  }
}

// `first` is the first position that the op touches.
void check_segment(std::string_view op, const PagedKv& kv, const AttentionSegment& s, int64_t rows,
                   int64_t first) {
  if (s.row < 0 || s.q_len < 0 || s.q_len > s.kv_len || int64_t{s.row} + s.q_len > rows) {
    bad_argument(op, fmt::format("a segment of rows [{}, {} + {}) at length {} in {} rows", s.row,
                                 s.row, s.q_len, s.kv_len, rows));
  }
  if (s.q_len == 0) return;
  const int64_t last = (int64_t{s.kv_len} - 1) / kv.block_tokens;
  for (int64_t b = first / kv.block_tokens; b <= last; ++b) {
    if (s.blocks == nullptr || s.blocks[b] < 0 || s.blocks[b] >= kv.num_blocks) {
      bad_argument(op, fmt::format("block {} of a segment is {}, the cache has {}", b,
                                   s.blocks == nullptr ? -1 : s.blocks[b], kv.num_blocks));
    }
  }
}

// Index arrays for one call, when the caller has made none for the batch.
struct CallPlan {
  AttentionPlan plan;
  Tensor memory;
};

void make_plan(PagedKv& kv, std::span<const AttentionSegment> segments, int64_t rows,
               CallPlan& made) {
  if (kv.device.kind == DeviceKind::Cpu || kv.plan != nullptr) return;
  std::vector<int32_t> values;
  const AttentionPlanSizes sizes =
      write_attention_plan(segments, static_cast<int32_t>(rows), kv.block_tokens, values);
  made.memory = Tensor::of(values, {static_cast<int64_t>(values.size())}).to(kv.device);
  made.plan = bind_attention_plan(sizes, static_cast<const int32_t*>(made.memory.raw()));
  kv.plan = &made.plan;
}

void check_plan(std::string_view op, const PagedKv& kv, int64_t rows) {
  if (kv.plan->num_rows == rows) return;
  bad_argument(
      op, fmt::format("the plan of the batch is for {} rows, not {}", kv.plan->num_rows, rows));
}

}  // namespace

namespace {

// Checked arguments; the plan is `made` for the call unless the batch has one.
KvAppendArgs append_args(const PagedKv& kv, std::span<const AttentionSegment> segments,
                         const Tensor& k, const Tensor& v, CallPlan& made) {
  require_kernel(op_table(kv.device.kind).kv_append != nullptr, "kv_append", kv.device.kind);
  check_cache("kv_append", kv);
  const RowView kr = row_view("kv_append", "k", k);
  const bool latent = kv.v == nullptr;
  if (latent != !v) bad_argument("kv_append", "values for a cache without, or none for one with");
  const RowView vr = latent ? RowView{} : row_view("kv_append", "v", v);
  const bool v_fits = latent || (v.shape().rank() == 3 && kr.outer == vr.outer &&
                                 v.dim(1) == kv.kv_heads && vr.dim == kv.v_dim);
  if (k.shape().rank() != 3 || k.dim(1) != kv.kv_heads || kr.dim != kv.k_dim || !v_fits) {
    bad_argument(
        "kv_append",
        fmt::format("k {} and v {} for a cache of {} heads, k_dim {}, v_dim {}", k.shape().str(),
                    latent ? "none" : v.shape().str(), kv.kv_heads, kv.k_dim, kv.v_dim));
  }
  if (!latent) check_alike("kv_append", k, v);
  if (!(k.device() == kv.device))
    bad_argument("kv_append", "k is on another device than the cache");
  PagedKv planned = kv;
  if (kv.plan == nullptr) {
    for (const AttentionSegment& s : segments) {
      check_segment("kv_append", kv, s, kr.outer, int64_t{s.kv_len} - s.q_len);
    }
    make_plan(planned, segments, kr.outer, made);
  } else {
    check_plan("kv_append", kv, kr.outer);
  }
  return {.kv = planned,
          .segments = segments,
          .k = kr.data,
          .v = vr.data,
          .k_stride = kr.outer_stride,
          .v_stride = vr.outer_stride,
          .type = kr.type};
}

}  // namespace

void kv_append(const PagedKv& kv, std::span<const AttentionSegment> segments, const Tensor& k,
               const Tensor& v) {
  CallPlan made;
  const KvAppendArgs args = append_args(kv, segments, k, v, made);
  if (k.dim(0) > 0) op_table(kv.device.kind).kv_append(args);
}

void rope_append(const PagedKv& kv, std::span<const AttentionSegment> segments, Tensor& q,
                 Tensor& k, const Tensor& v, const Tensor& positions, const Tensor& inv_freq,
                 bool interleaved, float attention_factor, int32_t first_position) {
  const OpTable& table = op_table(kv.device.kind);
  if (table.rope_append == nullptr || kv.plan == nullptr || kv.v == nullptr) {
    rope_pair(q, k, positions, inv_freq, interleaved, attention_factor, first_position);
    return kv_append(kv, segments, k, v);
  }
  CallPlan made;
  RopeAppendArgs args;
  args.q = rope_args(q, positions, inv_freq, interleaved, attention_factor, first_position);
  args.k = rope_args(k, positions, inv_freq, interleaved, attention_factor, first_position);
  args.append = append_args(kv, segments, k, v, made);
  check_alike("rope_append", q, k);
  if (q.dim(0) != k.dim(0)) bad_argument("rope_append", "q and k have different numbers of rows");
  if (q.dim(0) > 0) table.rope_append(args);
}

Tensor attention(const Tensor& q, const PagedKv& kv, std::span<const AttentionSegment> segments,
                 const AttentionOptions& options) {
  const OpTable& table = op_table(kv.device.kind);
  require_kernel(table.attention != nullptr, "attention", kv.device.kind);
  check_cache("attention", kv);
  const RowView rows = row_view("attention", "q", q);
  if (q.shape().rank() != 3 || rows.dim != kv.k_dim || q.dim(1) < 1 ||
      q.dim(1) % kv.kv_heads != 0 || q.dim(1) > INT32_MAX) {
    bad_argument("attention", fmt::format("q {} for a cache of {} heads and k_dim {}",
                                          q.shape().str(), kv.kv_heads, kv.k_dim));
  }
  if (options.window < 0 || !(options.softcap >= 0.0F)) {
    bad_argument("attention", "window and softcap must not be negative");
  }
  const int32_t window = options.window == 0 || kv.window == 0
                             ? std::max(options.window, kv.window)
                             : std::min(options.window, kv.window);
  if (!(q.device() == kv.device))
    bad_argument("attention", "q is on another device than the cache");
  CallPlan made;
  PagedKv planned = kv;
  if (kv.plan != nullptr) check_plan("attention", kv, rows.outer);
  for (const AttentionSegment& s : segments) {
    if (kv.plan != nullptr) break;
    const int64_t oldest = int64_t{s.kv_len} - s.q_len;  // position of the first query
    const int64_t first = window > 0 ? std::max<int64_t>(0, oldest - window + 1) : 0;
    check_segment("attention", kv, s, rows.outer, first);
  }
  make_plan(planned, segments, rows.outer, made);
  AttentionArgs args{.kv = planned,
                     .segments = segments,
                     .q = rows.data,
                     .q_stride = rows.outer_stride,
                     .type = rows.type,
                     .tokens = rows.outer,
                     .heads = static_cast<int32_t>(q.dim(1)),
                     .scale = options.scale,
                     .softcap = options.softcap,
                     .window = window};
  if (options.sinks != nullptr) {
    args.sinks = vector_of("attention", "sinks", *options.sinks, q.dim(1), false, q.device());
  }
  // Rows outside every segment are zero; device kernels write them.
  const Shape shape = {rows.outer, q.dim(1), kv.v_dim};
  const bool on_cpu = q.device().kind == DeviceKind::Cpu;
  Tensor out =
      on_cpu ? Tensor::zeros(shape, rows.type) : Tensor::empty(shape, rows.type, q.device());
  if (out.numel() == 0) return out;
  args.out = static_cast<float*>(out.raw());
  table.attention(args);
  return out;
}

}  // namespace mlxcel::ops

#include "ops/experts.h"

#include <fmt/core.h>

#include <cmath>

#include "base/error.h"
#include "ops/check.h"
#include "ops/expert_table.h"
#include "ops/op_table.h"

namespace mlxcel::ops {
namespace {

constexpr int32_t kMaxExperts = 1 << 16;

const OpTable& table_of(const Tensor& x) { return op_table(x.device().kind); }
float* data_of(Tensor& t) { return static_cast<float*>(t.raw()); }

const PlannedExperts& planned(const PackedExperts& w) {
  const auto* experts = dynamic_cast<const PlannedExperts*>(&w);
  if (experts == nullptr) {
    bad_argument("expert_linear", "the experts were not made by pack_experts");
  }
  return *experts;
}

int64_t align_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Shape and format of the stacked matrices of one expert.
MatrixView view_of(const ExpertSources& sources) {
  if (sources.empty()) bad_argument("pack_experts", "an expert without matrices");
  MatrixView view{.format = sources.front()->format(), .rows = 0, .cols = sources.front()->cols()};
  for (const MatrixSource* s : sources) {
    if (!(s->format() == view.format) || s->cols() != view.cols) {
      bad_argument("pack_experts",
                   fmt::format("{} and {} cannot be stacked", sources.front()->name(), s->name()));
    }
    view.rows += s->rows();
  }
  return view;
}

}  // namespace

void check_router(const RouterOptions& o, int64_t experts) {
  if (experts < 1 || experts > kMaxExperts) {
    bad_argument("route", fmt::format("{} experts, expected 1 to {}", experts, kMaxExperts));
  }
  if (o.num_groups < 1 || experts % o.num_groups != 0 || o.top_groups < 1 ||
      o.top_groups > o.num_groups) {
    bad_argument("route",
                 fmt::format("{} of {} groups of {} experts", o.top_groups, o.num_groups, experts));
  }
  const int64_t reachable = experts / o.num_groups * o.top_groups;
  if (o.top_k < 1 || o.top_k > reachable) {
    bad_argument("route", fmt::format("top_k {} of {} reachable experts", o.top_k, reachable));
  }
  const bool pair = o.group_score == RouterOptions::GroupScore::TopTwoSum;
  if (o.num_groups > 1 && pair && experts / o.num_groups < 2) {
    bad_argument("route",
                 fmt::format("groups of {} experts have no two best ones", experts / o.num_groups));
  }
  if (o.score == RouterOptions::Score::SparseMixer && o.top_k != 2) {
    bad_argument("route", fmt::format("SparseMixer chooses 2 experts, not {}", o.top_k));
  }
}

Routing route(const Tensor& logits, const RouterOptions& options, const Tensor& selection_bias) {
  const OpTable& table = table_of(logits);
  require_kernel(table.route != nullptr, "route", logits.device().kind);
  RouteArgs args{.logits = row_view("route", "logits", logits), .options = options};
  if (logits.shape().rank() != 2) bad_argument("route", "logits are not [T, E]");
  check_router(options, args.logits.dim);
  args.bias = vector_of("route", "selection_bias", selection_bias, args.logits.dim, true);
  Routing out{Tensor::empty({args.logits.outer, options.top_k}, DType::I32, logits.device()),
              Tensor::empty({args.logits.outer, options.top_k}, DType::F32, logits.device())};
  args.ids = static_cast<int32_t*>(out.ids.raw());
  args.weights = data_of(out.weights);
  if (out.ids.numel() > 0) table.route(args);
  return out;
}

std::shared_ptr<const PackedExperts> pack_experts(std::span<const ExpertSources> experts,
                                                  Device device) {
  if (experts.empty() || experts.size() > kMaxExperts) {
    bad_argument("pack_experts", fmt::format("{} experts", experts.size()));
  }
  MatrixView view = view_of(experts.front());
  const std::string& name = experts.front().front()->name();
  if (view.rows < 1 || view.rows > INT32_MAX || view.cols < 1 || view.cols > (int64_t{1} << 28)) {
    bad_argument("pack_experts",
                 fmt::format("{} has {} rows and {} columns", name, view.rows, view.cols));
  }
  return with_context(name, [&]() -> std::shared_ptr<const PackedExperts> {
    const KernelTable& table = kernel_table();
    const Packing& packing = table.packing_for(view.format, view.cols, device);
    view.layout = packing.layout;
    const Isa cap = device.kind == DeviceKind::Cpu ? cpu_level() : Isa::Sm90;
    LinearPlan plan = table.plan(view.format, view.layout, device, cap, cpu_activations());
    const int64_t stride = align_up(packing.bytes(view.format, view.rows, view.cols));
    const auto count = static_cast<int64_t>(experts.size());
    if (stride > (int64_t{1} << 46) / count) {
      throw Error(Code::ResourceExhausted, "the experts are too large to pack");
    }
    auto data = Buffer::host(stride * count);
    auto* out = static_cast<std::byte*>(data->data());
    for (const ExpertSources& sources : experts) {
      const MatrixView one = view_of(sources);
      if (!(one.format == view.format) || one.rows != view.rows || one.cols != view.cols) {
        bad_argument("pack_experts",
                     fmt::format("{} ({}, {} x {}) and {} ({}, {} x {}) differ", name,
                                 view.format.str(), view.rows, view.cols, sources.front()->name(),
                                 one.format.str(), one.rows, one.cols));
      }
      packing.pack(sources, out);
      out += stride;
    }
    view.data = data->data();
    return std::make_shared<PlannedExperts>(view, count, stride, std::move(data), std::move(plan),
                                            packing);
  });
}

Tensor expert_linear(const Tensor& x, const PackedExperts& w, const Tensor& ids,
                     const Tensor& bias) {
  constexpr std::string_view kOp = "expert_linear";
  const OpTable& table = table_of(x);
  require_kernel(table.expert_linear != nullptr, kOp, x.device().kind);
  const PlannedExperts& experts = planned(w);
  ExpertLinearArgs args{.experts = &experts, .x = row_view(kOp, "x", x)};
  if (!ids || ids.dtype() != DType::I32 || !ids.contiguous()) {
    bad_argument(kOp, "ids must be contiguous i32 values");
  }
  args.slots = ids.numel();
  const int64_t rows = args.x.outer;
  if (x.shape().rank() != 2 || args.x.dim != w.cols() || (rows == 0) != (args.slots == 0) ||
      (rows > 0 && args.slots % rows != 0)) {
    bad_argument(kOp, fmt::format("x {} for {} slots and experts of {} columns", x.shape().str(),
                                  args.slots, w.cols()));
  }
  if (!(x.device() == w.device())) bad_argument(kOp, "x is on another device than the experts");
  args.bias = vector_of(kOp, "bias", bias, w.num_experts() * w.rows(), true);
  Tensor y = Tensor::empty({args.slots, w.rows()}, DType::F32, x.device());
  if (args.slots == 0) return y;
  args.ids = static_cast<const int32_t*>(ids.raw());
  args.slots_per_row = args.slots / rows;
  args.y = data_of(y);
  table.expert_linear(args);
  return y;
}

Tensor head_linear(const Tensor& x, const PackedExperts& w) {
  constexpr std::string_view kOp = "head_linear";
  const OpTable& table = table_of(x);
  require_kernel(table.expert_linear != nullptr, kOp, x.device().kind);
  const PlannedExperts& experts = planned(w);
  const int64_t heads = w.num_experts();
  if (x.shape().rank() != 3 || x.dtype() != DType::F32 || x.dim(1) != heads ||
      x.dim(2) != w.cols()) {
    bad_argument(kOp,
                 fmt::format("x {} for {} heads of {} columns", x.shape().str(), heads, w.cols()));
  }
  Tensor y = Tensor::empty({x.dim(0), heads, w.rows()}, DType::F32, x.device());
  if (y.numel() == 0) return y;
  // Heads one after another are rows at one stride.
  if (x.stride(2) != 1 || (x.dim(0) > 1 && x.stride(0) != heads * x.stride(1))) {
    bad_argument(kOp, fmt::format("x {} is strided between tokens", x.shape().str()));
  }
  ExpertLinearArgs args;
  args.experts = &experts;
  args.slots = x.dim(0) * heads;
  args.x = {.data = static_cast<const float*>(x.raw()),
            .outer = args.slots,
            .outer_stride = x.stride(1),
            .dim = x.dim(2)};
  args.y = data_of(y);
  table.expert_linear(args);
  return y;
}

namespace {

Tensor combine(std::string_view op, const Tensor& y, const float* weights, int64_t choices) {
  const OpTable& table = table_of(y);
  require_kernel(table.combine_experts != nullptr, op, y.device().kind);
  CombineArgs args{.y = row_view(op, "y", y)};
  if (y.shape().rank() != 2 || choices < 1 || args.y.outer % choices != 0) {
    bad_argument(op, fmt::format("y {} with {} slots a token", y.shape().str(), choices));
  }
  args.weights = weights;
  args.tokens = args.y.outer / choices;
  args.choices = choices;
  Tensor out = Tensor::empty({args.tokens, args.y.dim}, DType::F32, y.device());
  args.out = data_of(out);
  if (out.numel() > 0) table.combine_experts(args);
  return out;
}

Tensor clamped(std::string_view op, ClampedSwigluArgs args, float alpha, float limit,
               Device device) {
  const OpTable& table = op_table(device.kind);
  require_kernel(table.clamped_swiglu != nullptr, op, device.kind);
  if (!(limit > 0.0F) || !std::isfinite(alpha)) {
    bad_argument(op, fmt::format("alpha {}, limit {}", alpha, limit));
  }
  args.alpha = alpha;
  args.limit = limit;
  Tensor out = Tensor::empty({args.gate.outer, args.gate.dim}, DType::F32, device);
  args.out = data_of(out);
  if (out.numel() > 0) table.clamped_swiglu(args);
  return out;
}

}  // namespace

Tensor combine_experts(const Tensor& y, const Tensor& weights) {
  constexpr std::string_view kOp = "combine_experts";
  if (!weights || weights.shape().rank() != 2 || y.shape().rank() != 2) {
    bad_argument(kOp, "y must be [S, D] and weights [T, K]");
  }
  const float* w = vector_of(kOp, "weights", weights, y.dim(0));
  return combine(kOp, y, w, weights.dim(1));
}

Tensor sum_slots(const Tensor& y, int64_t choices) {
  return combine("sum_slots", y, nullptr, choices);
}

Tensor scale_rows(const Tensor& x, const Tensor& factors) {
  const OpTable& table = table_of(x);
  require_kernel(table.scale_rows != nullptr, "scale_rows", x.device().kind);
  ScaleRowsArgs args{.x = row_view("scale_rows", "x", x)};
  const int64_t rows = args.x.outer, count = factors ? factors.numel() : 0;
  if (x.shape().rank() != 2 || (rows == 0) != (count == 0) || (rows > 0 && count % rows != 0)) {
    bad_argument("scale_rows", fmt::format("x {} with {} factors", x.shape().str(), count));
  }
  Tensor out = Tensor::empty({count, args.x.dim}, DType::F32, x.device());
  args.factors = vector_of("scale_rows", "factors", factors, count);
  args.count = count;
  args.per_row = rows > 0 ? count / rows : 1;
  args.out = data_of(out);
  if (out.numel() > 0) table.scale_rows(args);
  return out;
}

Tensor sigmoid(const Tensor& x) {
  const OpTable& table = table_of(x);
  require_kernel(table.sigmoid != nullptr, "sigmoid", x.device().kind);
  UnaryArgs args{.x = row_view("sigmoid", "x", x)};
  Tensor out = Tensor::empty(x.shape(), DType::F32, x.device());
  args.out = data_of(out);
  if (out.numel() > 0) table.sigmoid(args);
  return out;
}

Tensor clamped_swiglu(const Tensor& gate, const Tensor& up, float alpha, float limit) {
  constexpr std::string_view kOp = "clamped_swiglu";
  const ClampedSwigluArgs args{.gate = row_view(kOp, "gate", gate), .up = row_view(kOp, "up", up)};
  if (gate.shape().rank() != 2 || !(gate.shape() == up.shape())) {
    bad_argument(kOp, fmt::format("gate {} and up {}", gate.shape().str(), up.shape().str()));
  }
  return clamped(kOp, args, alpha, limit, gate.device());
}

Tensor clamped_swiglu_fused(const Tensor& gate_up, float alpha, float limit) {
  constexpr std::string_view kOp = "clamped_swiglu_fused";
  RowView rows = row_view(kOp, "gate_up", gate_up);
  if (gate_up.shape().rank() != 2 || rows.dim % 2 != 0) {
    bad_argument(kOp, fmt::format("gate_up {} is not [T, 2F]", gate_up.shape().str()));
  }
  rows.dim /= 2;
  ClampedSwigluArgs args{.gate = rows, .up = rows};
  args.up.data += rows.dim;
  return clamped(kOp, args, alpha, limit, gate_up.device());
}

}  // namespace mlxcel::ops

#include <fmt/core.h>

#include "base/error.h"
#include "ops/check.h"
#include "ops/op_table.h"
#include "ops/ops.h"

namespace mlxcel::ops {
namespace {

const OpTable& table_of(const Tensor& x) { return op_table(x.device().kind); }

float* data_of(Tensor& t) { return static_cast<float*>(t.raw()); }

Tensor like(const Tensor& x) { return Tensor::empty(x.shape(), x.dtype(), x.device()); }

void check_equal_shapes(std::string_view op, const Tensor& a, const Tensor& b) {
  if (a.shape() == b.shape()) return;
  bad_argument(op, fmt::format("shapes {} and {} differ", a.shape().str(), b.shape().str()));
}

Tensor binary(std::string_view op, void (*kernel)(const BinaryArgs&), const Tensor& a,
              const Tensor& b) {
  require_kernel(kernel != nullptr, op, a.device().kind);
  BinaryArgs args{.a = row_view(op, "the first operand", a),
                  .b = row_view(op, "the second operand", b)};
  check_equal_shapes(op, a, b);
  check_alike(op, a, b);
  Tensor out = like(a);
  args.out = data_of(out);
  if (out.numel() > 0) kernel(args);
  return out;
}

Tensor unary(std::string_view op, void (*kernel)(const UnaryArgs&), const Tensor& x,
             float parameter, Activation kind = Activation::Silu) {
  require_kernel(kernel != nullptr, op, x.device().kind);
  UnaryArgs args{.x = row_view(op, "x", x), .parameter = parameter, .kind = kind};
  Tensor out = like(x);
  args.out = data_of(out);
  if (out.numel() > 0) kernel(args);
  return out;
}

// Columns [begin, end) of every row.
RowView columns(RowView rows, int64_t begin, int64_t end) {
  rows.data = reinterpret_cast<const float*>(reinterpret_cast<const char*>(rows.data) +
                                             begin * size_of(rows.type));
  rows.dim = end - begin;
  return rows;
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& gain, float eps, float offset) {
  const OpTable& table = table_of(x);
  require_kernel(table.rms_norm != nullptr, "rms_norm", x.device().kind);
  NormArgs args;
  args.x = row_view("rms_norm", "x", x);
  args.eps = eps;
  args.offset = offset;
  args.gain = vector_of("rms_norm", "gain", gain, args.x.dim, false, x.device());
  Tensor out = like(x);
  args.out = data_of(out);
  if (out.numel() > 0) table.rms_norm(args);
  return out;
}

AddNorm add_rms_norm(const Tensor& x, const Tensor& delta, const Tensor& gain, float eps,
                     float offset) {
  const OpTable& table = table_of(x);
  require_kernel(table.rms_norm != nullptr, "rms_norm", x.device().kind);
  NormArgs args{.x = row_view("add_rms_norm", "x", x),
                .delta = row_view("add_rms_norm", "delta", delta),
                .eps = eps,
                .offset = offset};
  check_equal_shapes("add_rms_norm", x, delta);
  check_alike("add_rms_norm", x, delta);
  args.gain = vector_of("add_rms_norm", "gain", gain, args.x.dim, false, x.device());
  AddNorm out{like(x), like(x)};
  args.sum = data_of(out.sum);
  args.out = data_of(out.normed);
  if (x.numel() > 0) table.rms_norm(args);
  return out;
}

Tensor layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, float eps) {
  const OpTable& table = table_of(x);
  require_kernel(table.layer_norm != nullptr, "layer_norm", x.device().kind);
  NormArgs args;
  args.x = row_view("layer_norm", "x", x);
  args.eps = eps;
  args.gain = vector_of("layer_norm", "gain", gain, args.x.dim, true, x.device());
  args.bias = vector_of("layer_norm", "bias", bias, args.x.dim, true, x.device());
  Tensor out = like(x);
  args.out = data_of(out);
  if (out.numel() > 0) table.layer_norm(args);
  return out;
}

Tensor add(const Tensor& a, const Tensor& b) { return binary("add", table_of(a).add, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary("mul", table_of(a).mul, a, b); }
Tensor mul_row(const Tensor& x, const Tensor& row) {
  const OpTable& table = table_of(x);
  require_kernel(table.mul != nullptr, "mul_row", x.device().kind);
  BinaryArgs args;
  args.a = row_view("mul_row", "x", x);
  args.b = {.data = vector_of("mul_row", "row", row, args.a.inner * args.a.dim),
            .outer = args.a.outer,
            .inner = args.a.inner,
            .outer_stride = 0,
            .dim = args.a.dim};
  Tensor out = like(x);
  args.out = data_of(out);
  if (out.numel() > 0) table.mul(args);
  return out;
}

Tensor silu_mul(const Tensor& gate, const Tensor& up) {
  return binary("silu_mul", table_of(gate).silu_mul, gate, up);
}

Tensor silu_mul_fused(const Tensor& gate_up) {
  const OpTable& table = table_of(gate_up);
  require_kernel(table.silu_mul != nullptr, "silu_mul", gate_up.device().kind);
  const RowView rows = row_view("silu_mul_fused", "gate_up", gate_up);
  if (gate_up.shape().rank() != 2 || rows.dim % 2 != 0) {
    bad_argument("silu_mul_fused", fmt::format("gate_up {} is not [T, 2F]", gate_up.shape().str()));
  }
  const int64_t half = rows.dim / 2;
  Tensor out = Tensor::empty({rows.outer, half}, rows.type, gate_up.device());
  if (out.numel() > 0) {
    table.silu_mul(
        {.a = columns(rows, 0, half), .b = columns(rows, half, rows.dim), .out = data_of(out)});
  }
  return out;
}

Tensor scale(const Tensor& x, float factor) { return unary("scale", table_of(x).scale, x, factor); }

Tensor activate(const Tensor& x, Activation kind) {
  return unary("activate", table_of(x).activate, x, 0.0F, kind);
}

Tensor softcap(const Tensor& x, float cap) {
  if (!(cap > 0.0F)) bad_argument("softcap", fmt::format("cap is {}, expected above 0", cap));
  return unary("softcap", table_of(x).softcap, x, cap);
}

Tensor clamp(const Tensor& x, float limit) {
  if (!(limit > 0.0F)) bad_argument("clamp", fmt::format("limit is {}, expected above 0", limit));
  return unary("clamp", table_of(x).clamp, x, limit);
}

Tensor xielu(const Tensor& x, const XieluOptions& options) {
  const OpTable& table = table_of(x);
  require_kernel(table.xielu != nullptr, "xielu", x.device().kind);
  XieluArgs args{.x = row_view("xielu", "x", x), .options = options};
  Tensor out = like(x);
  args.out = data_of(out);
  if (out.numel() > 0) table.xielu(args);
  return out;
}

Tensor position_factors(const Tensor& positions, float beta, int64_t period) {
  const OpTable& table = table_of(positions);
  require_kernel(table.position_factors != nullptr, "position_factors", positions.device().kind);
  if (period < 1) {
    bad_argument("position_factors", fmt::format("period is {}, expected above 0", period));
  }
  PositionFactorsArgs args{.positions = indices_of("position_factors", "positions", positions),
                           .count = positions.numel(),
                           .period = period,
                           .beta = beta};
  Tensor out = Tensor::empty({args.count}, DType::F32, positions.device());
  args.out = data_of(out);
  if (args.count > 0) table.position_factors(args);
  return out;
}

Tensor take_rows(const Tensor& x, const Tensor& rows) {
  const OpTable& table = table_of(x);
  require_kernel(table.take_rows != nullptr, "take_rows", x.device().kind);
  TakeRowsArgs args{.x = row_view("take_rows", "x", x)};
  if (x.shape().rank() != 2) bad_argument("take_rows", "x is not [T, D]");
  args.ids = indices_of("take_rows", "rows", rows, x.device());
  args.count = rows.numel();
  const bool readable = x.device().kind == DeviceKind::Cpu;
  for (int64_t i = 0; readable && i < args.count; ++i) {
    if (args.ids[i] < 0 || args.ids[i] >= args.x.outer) {
      bad_argument("take_rows",
                   fmt::format("row {} is outside {} rows", args.ids[i], args.x.outer));
    }
  }
  Tensor out = Tensor::empty({args.count, args.x.dim}, args.x.type, x.device());
  args.out = data_of(out);
  if (out.numel() > 0) table.take_rows(args);
  return out;
}

Tensor argmax_rows(const Tensor& x) {
  const OpTable& table = table_of(x);
  require_kernel(table.argmax_rows != nullptr, "argmax_rows", x.device().kind);
  ArgmaxArgs args{.x = row_view("argmax_rows", "x", x)};
  if (x.shape().rank() != 2 || x.dtype() != DType::F32 || args.x.dim > INT32_MAX) {
    bad_argument("argmax_rows", fmt::format("x {} is not [R, V] f32", x.shape().str()));
  }
  Tensor out = Tensor::empty({args.x.outer}, DType::I32, x.device());
  args.out = static_cast<int32_t*>(out.raw());
  if (args.x.outer > 0) table.argmax_rows(args);
  return out;
}

Tensor copy_columns(const Tensor& x, int64_t begin, int64_t end) {
  const OpTable& table = table_of(x);
  require_kernel(table.copy_rows != nullptr, "copy_columns", x.device().kind);
  const RowView rows = row_view("copy_columns", "x", x);
  if (x.shape().rank() != 2 || begin < 0 || end < begin || end > rows.dim) {
    bad_argument("copy_columns",
                 fmt::format("columns [{}, {}) of x {}", begin, end, x.shape().str()));
  }
  Tensor out = Tensor::empty({rows.outer, end - begin}, rows.type, x.device());
  if (out.numel() > 0) table.copy_rows({.x = columns(rows, begin, end), .out = data_of(out)});
  return out;
}

RopeArgs rope_args(Tensor& x, const Tensor& positions, const Tensor& inv_freq, bool interleaved,
                   float attention_factor, int32_t first_position) {
  require_kernel(table_of(x).rope != nullptr, "rope", x.device().kind);
  const RowView rows = row_view("rope", "x", x);
  if (x.shape().rank() != 3) {
    bad_argument("rope", fmt::format("x {} is not [T, H, Dh]", x.shape().str()));
  }
  RopeArgs args{.type = rows.type,
                .tokens = rows.outer,
                .x_stride = rows.outer_stride,
                .heads = rows.inner,
                .head_dim = rows.dim,
                .first_position = first_position,
                .interleaved = interleaved,
                .attention_factor = attention_factor};
  args.positions = indices_of("rope", "positions", positions, x.device());
  if (positions.numel() != rows.outer) {
    bad_argument("rope", fmt::format("{} positions for {} tokens", positions.numel(), rows.outer));
  }
  if (inv_freq) {
    args.half = inv_freq.shape().rank() > 0 ? inv_freq.dim(-1) : 0;
    args.freq_rows = inv_freq.shape().rank() == 2 ? inv_freq.dim(0) : 1;
  }
  args.inv_freq =
      vector_of("rope", "inv_freq", inv_freq, args.freq_rows * args.half, false, x.device());
  if (args.freq_rows < 1) bad_argument("rope", "inv_freq has no rows");
  if (2 * args.half > args.head_dim) {
    bad_argument("rope",
                 fmt::format("{} frequencies for heads of {} elements", args.half, args.head_dim));
  }
  if (x.numel() > 0 && args.half > 0) args.x = data_of(x);
  return args;
}

void rope(Tensor& x, const Tensor& positions, const Tensor& inv_freq, bool interleaved,
          float attention_factor, int32_t first_position) {
  const RopeArgs args =
      rope_args(x, positions, inv_freq, interleaved, attention_factor, first_position);
  if (args.x != nullptr) table_of(x).rope(args);
}

void rope_pair(Tensor& q, Tensor& k, const Tensor& positions, const Tensor& inv_freq,
               bool interleaved, float attention_factor, int32_t first_position) {
  RopeArgs a = rope_args(q, positions, inv_freq, interleaved, attention_factor, first_position);
  const RopeArgs b =
      rope_args(k, positions, inv_freq, interleaved, attention_factor, first_position);
  const auto* q_end = reinterpret_cast<const char*>(a.x) + a.heads * a.head_dim * size_of(a.type);
  const bool adjacent = a.x != nullptr && q_end == reinterpret_cast<const char*>(b.x) &&
                        a.x_stride == b.x_stride && a.head_dim == b.head_dim && a.type == b.type;
  if (adjacent) a.heads += b.heads;
  if (a.x != nullptr) table_of(q).rope(a);
  if (b.x != nullptr && !adjacent) table_of(k).rope(b);
}

}  // namespace mlxcel::ops

#include "ops/recurrent.h"

#include <fmt/core.h>

#include <string_view>

#include "ops/check.h"
#include "ops/op_table.h"
#include "ops/recurrent_args.h"

namespace mlxcel::ops {
namespace {

float* data_of(Tensor& t) { return static_cast<float*>(t.raw()); }

/// One call of an operation: its name and its number of rows, for the checks of every argument.
class Call {
 public:
  Call(std::string_view op, const Tensor& x) : op_(op), device_(x.device()) {
    const RowView rows = row_view(op, "x", x);
    if (x.shape().rank() != 2) bad_argument(op, fmt::format("x {} is not [T, D]", x.shape().str()));
    tokens = rows.outer;
    width = rows.dim;
  }

  template <class Kernel>
  Kernel kernel(Kernel RecurrentTable::* member) const {
    const Kernel found = op_table(device_.kind).recurrent.*member;
    require_kernel(found != nullptr, op_, device_.kind);
    return found;
  }

  Rows rows(std::string_view name, const Tensor& t, int64_t dim) const {
    const RowView v = row_view(op_, name, t);
    if (t.shape().rank() != 2 || v.outer != tokens || v.dim != dim) {
      bad_argument(op_,
                   fmt::format("{} is {}, expected [{}, {}]", name, t.shape().str(), tokens, dim));
    }
    return {.data = v.data, .stride = v.outer_stride};
  }

  /// The state of `shape` with any number of rows; also checks the segments against it.
  float* state(Tensor& t, std::initializer_list<int64_t> row_shape, StateSegments segments) const {
    bool fits = t && t.dtype() == DType::F32 && t.contiguous() &&
                t.shape().rank() == static_cast<int>(row_shape.size()) + 1;
    int axis = 1;
    for (const int64_t dim : row_shape) fits = fits && t.dim(axis++) == dim;
    if (!fits) {
      bad_argument(op_, fmt::format("state {} does not fit the other arguments",
                                    t ? t.shape().str() : std::string("(none)")));
    }
    for (const StateSegment& s : segments) {
      if (s.row < 0 || s.q_len < 0 || int64_t{s.row} + s.q_len > tokens || s.state_row < 0 ||
          s.state_row >= t.dim(0)) {
        bad_argument(op_, fmt::format("a segment of rows [{}, {} + {}) with state {} in {} rows "
                                      "and {} states",
                                      s.row, s.row, s.q_len, s.state_row, tokens, t.dim(0)));
      }
    }
    return data_of(t);
  }

  const float* vector(std::string_view name, const Tensor& t, int64_t count,
                      bool optional = false) const {
    return vector_of(op_, name, t, count, optional);
  }

  /// Zeros: rows outside every segment stay so.
  Tensor output(int64_t dim) const {
    return Tensor::zeros(Shape{tokens, dim}, DType::F32, device_);
  }
  [[noreturn]] void bad(const std::string& message) const { bad_argument(op_, message); }

  int64_t tokens = 0, width = 0;

 private:
  std::string_view op_;
  Device device_;
};

Tensor columns(std::string_view op, void (*RecurrentTable::*member)(const ColumnArgs&),
               const Tensor& x, const Tensor& bias, const Tensor& factor, float low, float high,
               bool need_factor) {
  const Call call(op, x);
  ColumnArgs args{.x = call.rows("x", x, call.width),
                  .bias = call.vector("bias", bias, call.width, true),
                  .factor = call.vector("factor", factor, call.width, !need_factor),
                  .tokens = call.tokens,
                  .dim = call.width,
                  .low = low,
                  .high = high};
  Tensor out = Tensor::empty(Shape{call.tokens, call.width}, DType::F32, x.device());
  args.out = data_of(out);
  const auto kernel = call.kernel(member);
  if (out.numel() > 0) kernel(args);
  return out;
}

}  // namespace

Tensor causal_conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, bool silu,
                     Tensor& state, StateSegments segments) {
  const Call call("causal_conv1d", x);
  const bool matrix = weight && weight.shape().rank() == 2;
  const int64_t taps = matrix ? weight.dim(0) : 0;
  const int64_t wide = matrix ? weight.dim(1) : 0;
  if (taps < 2 || call.width < 1 || wide < 1 || wide % call.width != 0) {
    call.bad(fmt::format("weight {} for {} channels", weight ? weight.shape().str() : "(none)",
                         call.width));
  }
  ConvArgs args{.x = call.rows("x", x, call.width),
                .segments = segments,
                .weight = call.vector("weight", weight, taps * wide),
                .bias = call.vector("bias", bias, wide, true),
                .tokens = call.tokens,
                .channels = call.width,
                .outputs = wide / call.width,
                .taps = taps,
                .silu = silu};
  args.state = call.state(state, {taps - 1, call.width}, segments);
  Tensor out = call.output(wide);
  args.out = data_of(out);
  const auto kernel = call.kernel(&RecurrentTable::causal_conv1d);
  if (out.numel() > 0) kernel(args);
  return out;
}

Tensor softplus(const Tensor& x, const Tensor& bias, float low, float high) {
  return columns("softplus", &RecurrentTable::softplus, x, bias, {}, low, high, false);
}
Tensor softplus_decay(const Tensor& x, const Tensor& bias, const Tensor& factor) {
  return columns("softplus_decay", &RecurrentTable::softplus_decay, x, bias, factor, 0, 0, true);
}
Tensor scale_columns(const Tensor& x, const Tensor& factor, const Tensor& bias) {
  return columns("scale_columns", &RecurrentTable::scale_columns, x, bias, factor, 0, 0, true);
}

Tensor block_linear(const Tensor& x, const Tensor& w, const Tensor& bias) {
  const Call call("block_linear", x);
  if (!w || w.shape().rank() != 3) call.bad("w is not [H, I, O]");
  BlockLinearArgs args{.x = call.rows("x", x, w.dim(0) * w.dim(1)),
                       .w = call.vector("w", w, w.numel()),
                       .bias = call.vector("bias", bias, w.dim(0) * w.dim(2), true),
                       .tokens = call.tokens,
                       .heads = w.dim(0),
                       .in = w.dim(1),
                       .out_dim = w.dim(2)};
  Tensor out = call.output(args.heads * args.out_dim);
  args.out = data_of(out);
  const auto kernel = call.kernel(&RecurrentTable::block_linear);
  if (out.numel() > 0) kernel(args);
  return out;
}

Tensor join_columns(const Tensor& a, const Tensor& b) {
  const Call call("join_columns", a);
  const int64_t b_dim = b && b.shape().rank() == 2 ? b.dim(1) : 0;
  JoinArgs args{.a = call.rows("a", a, call.width),
                .b = call.rows("b", b, b_dim),
                .tokens = call.tokens,
                .a_dim = call.width,
                .b_dim = b_dim};
  Tensor out = Tensor::empty(Shape{call.tokens, call.width + b_dim}, DType::F32, a.device());
  args.out = data_of(out);
  const auto kernel = call.kernel(&RecurrentTable::join_columns);
  if (out.numel() > 0) kernel(args);
  return out;
}

Tensor head_dot_scale(const Tensor& a, const Tensor& b, const Tensor& v, int64_t heads) {
  const Call call("head_dot_scale", a);
  if (heads < 1 || call.width % heads != 0) {
    call.bad(fmt::format("{} elements for {} heads", call.width, heads));
  }
  HeadDotArgs args{.a = call.rows("a", a, call.width),
                   .b = call.rows("b", b, call.width),
                   .v = call.rows("v", v, call.width),
                   .tokens = call.tokens,
                   .heads = heads,
                   .dim = call.width / heads};
  Tensor out = call.output(call.width);
  args.out = data_of(out);
  const auto kernel = call.kernel(&RecurrentTable::head_dot_scale);
  if (out.numel() > 0) kernel(args);
  return out;
}

Tensor selective_scan(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b,
                      const Tensor& c, const Tensor& d, Tensor& state, StateSegments segments) {
  const Call call("selective_scan", x);
  if (!a || a.shape().rank() != 2) call.bad("a is not [N, D]");
  const int64_t states = a.dim(0);
  SelectiveScanArgs args{.x = call.rows("x", x, call.width),
                         .dt = call.rows("dt", dt, call.width),
                         .b = call.rows("b", b, states),
                         .c = call.rows("c", c, states),
                         .segments = segments,
                         .a = call.vector("a", a, states * call.width),
                         .d = call.vector("d", d, call.width),
                         .tokens = call.tokens,
                         .channels = call.width,
                         .states = states};
  args.state = call.state(state, {states, call.width}, segments);
  Tensor out = call.output(call.width);
  args.out = data_of(out);
  const auto kernel = call.kernel(&RecurrentTable::selective_scan);
  if (out.numel() > 0) kernel(args);
  return out;
}

Tensor ssd_scan(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b,
                const Tensor& c, const Tensor& d, Tensor& state, StateSegments segments) {
  const Call call("ssd_scan", x);
  if (!state || state.shape().rank() != 4) call.bad("state is not [S, H, N, P]");
  const int64_t heads = state.dim(1), states = state.dim(2), head_dim = state.dim(3);
  const int64_t wide = b && b.shape().rank() == 2 ? b.dim(1) : 0;
  const int64_t groups = states > 0 ? wide / states : 0;
  if (groups < 1 || groups * states != wide || heads % groups != 0) {
    call.bad(fmt::format("b {} for {} heads of {} states", b ? b.shape().str() : "(none)", heads,
                         states));
  }
  SsdArgs args{.x = call.rows("x", x, heads * head_dim),
               .dt = call.rows("dt", dt, heads),
               .b = call.rows("b", b, wide),
               .c = call.rows("c", c, wide),
               .segments = segments,
               .a = call.vector("a", a, heads),
               .d = call.vector("d", d, heads),
               .tokens = call.tokens,
               .heads = heads,
               .groups = groups,
               .states = states,
               .head_dim = head_dim};
  args.state = call.state(state, {heads, states, head_dim}, segments);
  Tensor out = call.output(call.width);
  args.out = data_of(out);
  const auto kernel = call.kernel(&RecurrentTable::ssd_scan);
  if (out.numel() > 0) kernel(args);
  return out;
}

Tensor delta_scan(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& decay,
                  const Tensor& beta, Tensor& state, StateSegments segments) {
  const Call call("delta_scan", q);
  if (!state || state.shape().rank() != 4) call.bad("state is not [S, H, Dk, Dv]");
  const int64_t heads = state.dim(1), k_dim = state.dim(2), v_dim = state.dim(3);
  const int64_t key_heads = k_dim > 0 ? call.width / k_dim : 0;
  if (key_heads < 1 || key_heads * k_dim != call.width || heads % key_heads != 0) {
    call.bad(fmt::format("q {} for {} heads of {} elements", q.shape().str(), heads, k_dim));
  }
  const bool by_element = decay && decay.shape().rank() == 2 && decay.dim(1) != heads;
  DeltaArgs args{.q = call.rows("q", q, call.width),
                 .k = call.rows("k", k, call.width),
                 .v = call.rows("v", v, heads * v_dim),
                 .decay = call.rows("decay", decay, by_element ? heads * k_dim : heads),
                 .beta = call.rows("beta", beta, heads),
                 .segments = segments,
                 .decay_by_element = by_element,
                 .tokens = call.tokens,
                 .heads = heads,
                 .key_heads = key_heads,
                 .k_dim = k_dim,
                 .v_dim = v_dim};
  args.state = call.state(state, {heads, k_dim, v_dim}, segments);
  Tensor out = call.output(heads * v_dim);
  args.out = data_of(out);
  const auto kernel = call.kernel(&RecurrentTable::delta_scan);
  if (out.numel() > 0) kernel(args);
  return out;
}

Tensor rwkv7_scan(const Tensor& r, const Tensor& w, const Tensor& k, const Tensor& v,
                  const Tensor& a, const Tensor& b, Tensor& state, StateSegments segments) {
  const Call call("rwkv7_scan", r);
  if (!state || state.shape().rank() != 4) call.bad("state is not [S, H, D, D]");
  const int64_t heads = state.dim(1), dim = state.dim(2);
  Rwkv7Args args{.r = call.rows("r", r, heads * dim),
                 .w = call.rows("w", w, heads * dim),
                 .k = call.rows("k", k, heads * dim),
                 .v = call.rows("v", v, heads * dim),
                 .a = call.rows("a", a, heads * dim),
                 .b = call.rows("b", b, heads * dim),
                 .segments = segments,
                 .tokens = call.tokens,
                 .heads = heads,
                 .dim = dim};
  args.state = call.state(state, {heads, dim, dim}, segments);
  Tensor out = call.output(heads * dim);
  args.out = data_of(out);
  const auto kernel = call.kernel(&RecurrentTable::rwkv7_scan);
  if (out.numel() > 0) kernel(args);
  return out;
}

Tensor rg_lru_scan(const Tensor& x, const Tensor& input, const Tensor& recurrence,
                   const Tensor& factor, const Tensor& positions, Tensor& state,
                   StateSegments segments) {
  const Call call("rg_lru_scan", x);
  RgLruArgs args{.x = call.rows("x", x, call.width),
                 .input = call.rows("input", input, call.width),
                 .recurrence = call.rows("recurrence", recurrence, call.width),
                 .segments = segments,
                 .factor = call.vector("factor", factor, call.width),
                 .positions = indices_of("rg_lru_scan", "positions", positions),
                 .tokens = call.tokens,
                 .width = call.width};
  if (positions.numel() != call.tokens) {
    call.bad(fmt::format("{} positions for {} tokens", positions.numel(), call.tokens));
  }
  args.state = call.state(state, {call.width}, segments);
  Tensor out = call.output(call.width);
  args.out = data_of(out);
  const auto kernel = call.kernel(&RecurrentTable::rg_lru_scan);
  if (out.numel() > 0) kernel(args);
  return out;
}

}  // namespace mlxcel::ops

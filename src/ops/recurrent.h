// Operations of recurrent layers. What such a layer remembers of a sequence is a row of one or more
// f32 state tensors, [S, ...]; a segment names the rows of x that continue a sequence and its state
// row, which is read and then replaced. Tokens are taken strictly one after the other, so neither
// the cut of a prompt nor the other sequences of a batch change a bit of a row.
//
// Activations are f32 [T, width]; a first axis of any stride (a slice of columns) is accepted.
// Widths of several heads are head after head. Rows outside every segment are zero in the results.
// Each throws InvalidArgument naming the operation for shapes that do not fit.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "tensor/tensor.h"

namespace mlxcel::ops {

/// New tokens of one sequence.
struct StateSegment {
  int32_t row = 0;        // first row in [0, T)
  int32_t q_len = 0;      // new tokens
  int32_t state_row = 0;  // row of the state tensors; at most one segment names it
};
using StateSegments = std::span<const StateSegment>;

/// Depthwise causal convolution with M outputs for each of C channels: out[t, m, c] = bias[m, c] +
/// sum over j of weight[j, m, c] * x[t - K + 1 + j, c], then SiLU if `silu`. x [T, C], weight
/// [K, M * C], bias [M * C] or null, state [S, K - 1, C]: the last inputs, oldest first. K >= 2.
/// Returns [T, M * C].
Tensor causal_conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, bool silu,
                     Tensor& state, StateSegments segments);

/// log(1 + e^(x + bias)), clamped to [low, high]; x [T, D], bias [D] or null.
Tensor softplus(const Tensor& x, const Tensor& bias, float low = 0.0F,
                float high = std::numeric_limits<float>::infinity());
/// exp(factor * softplus(x + bias)); x [T, D], factor and bias [D].
Tensor softplus_decay(const Tensor& x, const Tensor& bias, const Tensor& factor);
/// x * factor + bias, column by column; x [T, D], factor [D], bias [D] or null.
Tensor scale_columns(const Tensor& x, const Tensor& factor, const Tensor& bias = {});
/// A matrix for each head: out[t, h, o] = bias[h, o] + sum over i of x[t, h, i] * w[h, i, o].
/// x [T, H * I], w [H, I, O], bias [H * O] or null. Returns [T, H * O].
Tensor block_linear(const Tensor& x, const Tensor& w, const Tensor& bias);
/// The columns of a, then those of b: a [T, A], b [T, B] -> [T, A + B].
Tensor join_columns(const Tensor& a, const Tensor& b);
/// v of each head times the product of a and b of that head; a, b, v [T, H * D].
Tensor head_dot_scale(const Tensor& a, const Tensor& b, const Tensor& v, int64_t heads);

/// Selective state space of Mamba (arXiv:2312.00752, section 3.2): h[n] = e^(dt a[n]) h[n] +
/// dt b[n] x, y = sum of c[n] h[n] + d x, for every channel. x and dt [T, D], a [N, D], b and c
/// [T, N], d [D], state [S, N, D]. Returns [T, D].
Tensor selective_scan(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b,
                      const Tensor& c, const Tensor& d, Tensor& state, StateSegments segments);

/// State space duality of Mamba 2 (arXiv:2405.21060): h = e^(dt a) h + dt b x^T, y = c h + d x, for
/// every head; heads share b and c in groups. x [T, H * P], dt [T, H], a and d [H], b and c
/// [T, G * N], state [S, H, N, P]. Returns [T, H * P].
Tensor ssd_scan(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b,
                const Tensor& c, const Tensor& d, Tensor& state, StateSegments segments);

/// Gated delta rule (arXiv:2412.06464): S = decay S, then S += beta k (v - k S), y = q S; value
/// heads share q and k in groups. q and k [T, Hk * Dk], v [T, H * Dv], decay [T, H], or
/// [T, H * Dk] for one of every key element (arXiv:2510.26692), beta [T, H], state [S, H, Dk, Dv].
/// Returns [T, H * Dv].
Tensor delta_scan(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& decay,
                  const Tensor& beta, Tensor& state, StateSegments segments);

/// RWKV-7 (arXiv:2503.14456): S = diag(w) S + k v^T + b (a S), y = r S, where a S is taken before
/// the update. r, w, k, v, a and b [T, H * D], state [S, H, D, D]. Returns [T, H * D].
Tensor rwkv7_scan(const Tensor& r, const Tensor& w, const Tensor& k, const Tensor& v,
                  const Tensor& a, const Tensor& b, Tensor& state, StateSegments segments);

/// RG-LRU (arXiv:2402.19427): a = e^(factor sigmoid(recurrence)), h = a h + sqrt(1 - a^2)
/// sigmoid(input) x, y = h; at position 0 a is 0, so that the root is 1. x, input and recurrence
/// [T, W], factor [W], positions [T] i32, state [S, W]. Returns [T, W].
Tensor rg_lru_scan(const Tensor& x, const Tensor& input, const Tensor& recurrence,
                   const Tensor& factor, const Tensor& positions, Tensor& state,
                   StateSegments segments);

}  // namespace mlxcel::ops

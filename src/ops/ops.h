// Public operations on tensors. Each checks its arguments, makes its output and runs the kernel of
// the tensor's device. Shapes: T tokens in the batch, D hidden size, H query heads, Hk key/value
// heads, Dh head dimension. Activations are f32 on the CPU and bf16 or f32 elsewhere; results have
// the type of the first operand. Every row of a result depends only on that row's inputs: never on
// the number of rows, threads or the split of a prompt.
//
// Indices (token ids, positions, rows) lie on the device of their op. On the CPU they are checked;
// elsewhere they cannot be read here, and kernels leave out rows whose index is out of range.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "tensor/matrix_source.h"
#include "tensor/tensor.h"

namespace mlxcel::ops {

// ---- matrices
// -------------------------------------------------------------------------------------------------

/// A weight matrix in the layout that the kernels of one device read. Immutable, shared between
/// threads.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual int64_t rows() const = 0;  // outputs
  virtual int64_t cols() const = 0;  // inputs
  virtual int64_t bytes() const = 0;
  virtual Device device() const = 0;
  virtual const WeightFormat& format() const = 0;
};

/// Repacks a stored matrix (in parallel) and drops its mapped pages. Throws Unsupported for a
/// format without kernels.
std::shared_ptr<const PackedMatrix> pack_matrix(const MatrixSource& source, Device device);
/// Several matrices of equal cols and format stacked by rows, so that one product serves them all.
std::shared_ptr<const PackedMatrix> pack_matrices(std::span<const MatrixSource* const> sources,
                                                  Device device);

/// y[T, rows] = x[T, cols] W^T (+ bias[rows]).
Tensor linear(const Tensor& x, const PackedMatrix& w, const Tensor* bias = nullptr);
/// The same with a result in f32 whatever the type of x, for logits.
Tensor linear_f32(const Tensor& x, const PackedMatrix& w, const Tensor* bias = nullptr);
/// Rows of an embedding table: ids [T] i32 -> [T, cols] in the activation type of the device.
/// Throws InvalidArgument for an id outside [0, rows).
Tensor gather_rows(const PackedMatrix& table, const Tensor& ids);

// ---- element-wise and norms
// -----------------------------------------------------------------------------------

/// x / sqrt(mean(x^2) + eps) * (gain + offset) over the last axis; x is [..., D], gain [D] f32.
Tensor rms_norm(const Tensor& x, const Tensor& gain, float eps, float offset = 0.0F);
struct AddNorm {
  Tensor sum, normed;  // sum = x + delta; normed = rms_norm(sum)
};
AddNorm add_rms_norm(const Tensor& x, const Tensor& delta, const Tensor& gain, float eps,
                     float offset = 0.0F);
/// (x - mean) / sqrt(var + eps) * gain + bias over the last axis; gain and bias may be null
/// tensors.
Tensor layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, float eps);
Tensor add(const Tensor& a, const Tensor& b);  // equal shapes
Tensor mul(const Tensor& a, const Tensor& b);  // equal shapes
/// x[t] * row for every t: x [T, ...], row f32 with as many values as x[t].
Tensor mul_row(const Tensor& x, const Tensor& row);
Tensor scale(const Tensor& x, float factor);
Tensor silu_mul(const Tensor& gate, const Tensor& up);  // silu(gate) * up
/// gate_up [T, 2F] holds gate then up of each row: silu(gate) * up, [T, F].
Tensor silu_mul_fused(const Tensor& gate_up);
enum class Activation : uint8_t { Silu, Gelu, GeluTanh, Relu, Relu2, Tanh, Exp };
Tensor activate(const Tensor& x, Activation kind);
/// cap * tanh(x / cap).
Tensor softcap(const Tensor& x, float cap);
/// x cut to [-limit, limit]; limit > 0.
Tensor clamp(const Tensor& x, float limit);
/// xIELU (arXiv:2411.13010): alpha_p x^2 + beta x above 0, alpha_n (e^min(x, eps) - 1 - x) + beta x
/// elsewhere; eps is a small negative number.
struct XieluOptions {
  float alpha_p = 0.0F, alpha_n = 0.0F, beta = 0.5F, eps = -1e-6F;
};
Tensor xielu(const Tensor& x, const XieluOptions& options);
/// 1 + beta * log(1 + floor(position / period)) for positions [T] i32 -> [T] f32.
Tensor position_factors(const Tensor& positions, float beta, int64_t period);
/// Rows of x [T, D] chosen by rows [R] i32 -> [R, D].
Tensor take_rows(const Tensor& x, const Tensor& rows);
/// The column of the largest value of every row of x [R, V] f32, the first of equals: [R] i32. -1
/// for a row with a NaN or nothing above -infinity.
Tensor argmax_rows(const Tensor& x);
/// Copies columns [begin, end) of x [T, D] into a contiguous [T, end - begin].
Tensor copy_columns(const Tensor& x, int64_t begin, int64_t end);

// ---- rotary embedding
// -----------------------------------------------------------------------------------------

/// Rotates the first 2 * inv_freq.numel() elements of every head, in place. x [T, H, Dh] (rows may
/// be strided: a slice of a fused projection), positions [T] i32, inv_freq [rotary_dim / 2] f32.
/// Angles are position * inv_freq in f32, as the reference implementations compute them; cos and
/// sin are multiplied by `attention_factor`. Split halves pair (i, i + rotary_dim / 2); interleaved
/// pairs (2i, 2i + 1).
/// Frequencies that depend on the position come as rows, inv_freq [P, rotary_dim / 2]: position p
/// uses row p - first_position, the first row below that range and the last row above it.
void rope(Tensor& x, const Tensor& positions, const Tensor& inv_freq, bool interleaved,
          float attention_factor = 1.0F, int32_t first_position = 0);

/// rope() of two tensors at the same positions; one launch when k follows q in every row, as in a
/// fused projection.
void rope_pair(Tensor& q, Tensor& k, const Tensor& positions, const Tensor& inv_freq,
               bool interleaved, float attention_factor = 1.0F, int32_t first_position = 0);

// ---- paged attention
// ------------------------------------------------------------------------------------------

/// Index arrays of one batch in device memory, for the layers that share block tables. Null on the
/// CPU. Made by write_attention_plan and bind_attention_plan (attention_plan.h).
struct AttentionPlan {
  // One entry a row [T].
  const int32_t* row_segment = nullptr;  // -1: the row belongs to no segment
  const int32_t* row_length = nullptr;   // positions that the row sees, its own included
  const int32_t* row_slot = nullptr;     // block * block_tokens + place, where its k and v go
  // One entry a segment [S].
  const int32_t* segment_row = nullptr;
  const int32_t* segment_q_len = nullptr;
  const int32_t* segment_kv_len = nullptr;
  const int32_t* table_begin = nullptr;  // of its block table in `tables`
  // Pieces of up to 64 rows of the segments longer than one row: segment, first row.
  const int32_t* tiles = nullptr;
  const int32_t* tables = nullptr;
  int32_t num_rows = 0, num_segments = 0, num_tiles = 0;
  int32_t max_q_len = 0;   // longest segment
  int32_t max_kv_len = 0;  // at least that of every segment: grids are sized by it
  bool has_gaps = false;   // rows of no segment, whose results must be zeros
};

/// The storage of one layer: k is [num_blocks, Hk, block_tokens, k_dim], v is [num_blocks, Hk,
/// block_tokens, v_dim]. A null v (latent attention): the values are the first v_dim elements of
/// the keys.
struct PagedKv {
  void* k = nullptr;
  void* v = nullptr;
  DType type = DType::F16;  // F32, F16 or BF16
  Device device{};
  int32_t num_blocks = 0, block_tokens = 32, kv_heads = 0, k_dim = 0, v_dim = 0;
  int32_t window = 0;  // only so many last positions are kept, and attention sees no more; 0 = all
  /// Devices other than the CPU: the segments of the batch as index arrays. Null: made for the call
  /// from the segments given.
  const AttentionPlan* plan = nullptr;
};

/// New tokens of one sequence. blocks[i] holds positions [i * block_tokens, (i + 1) *
/// block_tokens); entries wholly behind the window of the layer may be -1 and are never read.
/// blocks covers kv_len positions.
struct AttentionSegment {
  int32_t row = 0;     // first row in [0, T)
  int32_t q_len = 0;   // new tokens
  int32_t kv_len = 0;  // positions visible after this forward, the new ones included
  const int32_t* blocks = nullptr;
};

struct AttentionOptions {
  float scale = 1.0F;
  int32_t window = 0;             // a token sees itself and window - 1 before it; 0 = all
  float softcap = 0.0F;           // 0 = off
  const Tensor* sinks = nullptr;  // [H] f32 extra logit per head in the softmax denominator
};

/// Writes k [T, Hk, k_dim] and v [T, Hk, v_dim] at positions [kv_len - q_len, kv_len) of every
/// segment, rounded to the storage type. v must be null exactly when the storage has none.
void kv_append(const PagedKv& kv, std::span<const AttentionSegment> segments, const Tensor& k,
               const Tensor& v);
/// rope_pair() of q and k, then kv_append() of k and v; where the batch has a plan this is one
/// launch, which leaves k itself as it was.
void rope_append(const PagedKv& kv, std::span<const AttentionSegment> segments, Tensor& q,
                 Tensor& k, const Tensor& v, const Tensor& positions, const Tensor& inv_freq,
                 bool interleaved, float attention_factor = 1.0F, int32_t first_position = 0);
/// softmax(q K^T * scale + causal mask) V per segment; query head h reads key/value head h / (H /
/// Hk). q [T, H, k_dim]
/// -> [T, H, v_dim]. Keys are taken in pieces at absolute positions and partial results are merged
/// in order, so a row's bits do not depend on how the prompt was cut.
Tensor attention(const Tensor& q, const PagedKv& kv, std::span<const AttentionSegment> segments,
                 const AttentionOptions& options);

// ---- devices
// --------------------------------------------------------------------------------------------------

/// Human-readable name of the CPU instruction set that kernels use here, for example "avx2" or
/// "avx512-vnni". Capped by MLXCEL_CPU_ISA; throws InvalidArgument when that names a level the
/// machine lacks.
std::string cpu_isa();

}  // namespace mlxcel::ops

// The inner kernels of all ops but matrix products, compiled once for each instruction set. `n`
// counts elements; pointers need no alignment and inputs may equal outputs.
#pragma once

#include <cstdint>

#include "ops/op_table.h"

namespace mlxcel::cpu {

/// Positions of one softmax piece and one split. Fixed for all prompts and batches: they are the
/// order in which a row's keys are reduced.
inline constexpr int64_t kPiece = 64;
inline constexpr int64_t kSplit = 512;

/// One row of a norm; delta, sum, gain and bias may be null.
struct NormRow {
  const float* x;
  const float* delta;
  const float* gain;
  const float* bias;
  float* sum;
  float* out;
  int64_t n;
  float eps, offset;
};

/// Softmax state of `count` queries: maxima, sums of exponentials and value sums [count][v_pad].
struct SoftmaxState {
  float* maxima;
  float* sums;
  float* values;
  int64_t count, v_pad;
};

/// One piece of keys and values against the queries of a state.
struct PieceArgs {
  const float* q;       // [count][k_pad]
  const float* keys;    // [kPiece][k_pad], zero where there is no position
  const float* values;  // [kPiece][v_pad], likewise
  int64_t k_pad;
  int64_t end;          // positions of the piece that any query sees: [0, end)
  const int32_t* low;   // [count] first and
  const int32_t* high;  // [count] last + 1 position of the piece that a query sees
  float scale, softcap;
  float* scores;  // [count][kPiece]
  SoftmaxState state;
};

struct VectorKernels {
  int64_t lanes;
  void (*rms_norm)(const NormRow&);
  void (*layer_norm)(const NormRow&);
  void (*add)(const float* a, const float* b, float* out, int64_t n);
  void (*mul)(const float* a, const float* b, float* out, int64_t n);
  void (*silu_mul)(const float* gate, const float* up, float* out, int64_t n);
  void (*scale)(const float* x, float factor, float* out, int64_t n);
  /// out += x * factor, fused where the level has it.
  void (*scale_add)(const float* x, float factor, float* out, int64_t n);
  void (*sigmoid)(const float* x, float* out, int64_t n);
  void (*clamped_swiglu)(const float* gate, const float* up, float alpha, float limit, float* out,
                         int64_t n);
  void (*softcap)(const float* x, float cap, float* out, int64_t n);
  void (*clamp)(const float* x, float limit, float* out, int64_t n);
  void (*xielu)(const float* x, const ops::XieluOptions& options, float* out, int64_t n);
  void (*activate)(const float* x, ops::Activation kind, float* out, int64_t n);
  /// cos and sin of position * inv_freq[i], times `factor`.
  void (*rope_angles)(int32_t position, const float* inv_freq, int64_t half, float factor,
                      float* cosines, float* sines);
  void (*rope_rotate)(float* x, const float* cosines, const float* sines, int64_t half,
                      bool interleaved);
  void (*narrow)(DType type, const float* in, void* out, int64_t n);  // F32, F16 or BF16
  void (*widen)(DType type, const void* in, float* out, int64_t n);
  void (*attend_piece)(const PieceArgs&);
  /// into = into merged with from, whose positions follow.
  void (*merge)(const SoftmaxState& into, const SoftmaxState& from);
  /// out [v_dim] = values of query i divided by its sum, with an optional extra logit.
  void (*finish)(const SoftmaxState& state, int64_t i, const float* sink, float* out,
                 int64_t v_dim);
};

extern const VectorKernels kVectorScalar;
#if defined(__x86_64__)
extern const VectorKernels kVectorAvx2;
extern const VectorKernels kVectorAvx512;
#endif
/// Those of the level in use.
const VectorKernels& vector_kernels();

}  // namespace mlxcel::cpu

// A cursor into the tensors of a checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/matrix_source.h"
#include "tensor/tensor.h"

namespace mlxcel::io {

/// Checkpoint-name rewriting applied before loading: `from` may hold one '*', which stands for any
/// text and is carried to the '*' of `to`. An empty `to` drops the tensor. Rules apply in order,
/// each once, to the result of those before.
struct Rename {
  std::string_view from, to;
};

struct ParallelGroup {
  int rank = 0, size = 1;
  int64_t divide(int64_t whole) const;  // whole / size; throws Unsupported when it does not divide
};

/// `at` descends one dotted level; `take` reads a leaf and marks it used. Copies share the
/// checkpoint.
class Weights {
 public:
  Weights();  // empty
  Weights at(std::string_view name) const;
  Weights at(std::string_view name, int64_t index) const;  // "layers", 3 -> "layers.3"
  /// Whether the tensor `leaf` exists, or any tensor below it ("lm_head"). Marks nothing used.
  bool has(std::string_view leaf) const;
  /// Shape of the tensor `leaf` as stored; empty when there is none. Marks nothing used.
  std::vector<int64_t> dims(std::string_view leaf) const;
  /// Whether take_matrix would find a matrix, and whether one of plain elements.
  bool has_matrix() const;
  bool has_dense_matrix() const;
  /// The stored shape of the tensor `leaf`; nothing when it is absent. Marks nothing used.
  std::optional<Shape> shape(std::string_view leaf) const;
  /// The same cursor for a checkpoint that stores dense matrices inputs first: take_matrix() then
  /// turns them round.
  Weights with_transposed_matrices() const;
  /// A tensor in its stored type, mapped without a copy where its alignment allows. A missing one
  /// is recorded (see missing()) and zeros (f32) are returned so that loading can go on and name
  /// all of them; a wrong shape throws Corrupt with both shapes. Block-quantized tensors throw
  /// Unsupported.
  Tensor take(std::string_view leaf, const Shape& expected) const;
  /// The same as a copy in f32, quantized storage included. For the small tensors that every step
  /// reads: a mapped one would keep whole runs of file pages resident around it.
  Tensor take_f32(std::string_view leaf, const Shape& expected) const;
  /// The matrix "weight" with its quantization companions (MLX "scales"/"biases", GGUF blocks, and
  /// the forms of block_weights.cc), [rows, cols] logical; leading dimensions beyond two count as
  /// rows. A missing one is recorded and a matrix of zeros returned. Throws Corrupt naming the
  /// shapes that do not fit, Unsupported for formats without a reader, and Corrupt with all missing
  /// names once the stand-ins for missing tensors exceed 1 GiB.
  std::shared_ptr<const MatrixSource> take_matrix(int64_t rows, int64_t cols) const;
  const ParallelGroup& tp() const;
  /// Where the model is to lie; tensors are handed out on the host all the same.
  Device device() const;
  std::string path() const;                  // "model.layers.3.self_attn"
  std::vector<std::string> unused() const;   // whole checkpoint
  std::vector<std::string> missing() const;  // whole checkpoint
  int64_t total_bytes() const;               // whole checkpoint, as stored

  struct Root;
  explicit Weights(std::shared_ptr<Root> root, std::string prefix = {}, bool transposed = false);

 private:
  std::string full(std::string_view leaf) const;
  std::shared_ptr<const MatrixSource> matrix(std::string_view leaf, int64_t rows,
                                             int64_t cols) const;
  std::shared_ptr<const MatrixSource> affine_matrix(int64_t rows, int64_t cols) const;
  /// The matrix when it is stored in block floating point or as ternary codes, else null.
  std::shared_ptr<const MatrixSource> stored_in_blocks(int64_t rows, int64_t cols) const;
  std::shared_ptr<Root> root_;
  std::string prefix_;
  bool transposed_ = false;
};

}  // namespace mlxcel::io

// A cursor into the tensors of a checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/matrix_source.h"
#include "tensor/tensor.h"

namespace mlxcel::io {

/// Checkpoint-name rewriting applied before loading: `from` may hold one '*'. An empty `to` drops.
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
  bool has(std::string_view leaf) const;
  /// A tensor in its stored type, mapped without a copy. A missing one is recorded (see missing())
  /// and zeros are returned so that loading can go on and name all of them; a wrong shape throws
  /// Corrupt with both shapes.
  Tensor take(std::string_view leaf, const Shape& expected) const;
  /// take() converted to f32.
  Tensor take_f32(std::string_view leaf, const Shape& expected) const;
  /// The matrix "weight" with its quantization companions (MLX "scales"/"biases", GGUF blocks),
  /// [rows, cols] logical.
  std::shared_ptr<const MatrixSource> take_matrix(int64_t rows, int64_t cols) const;
  const ParallelGroup& tp() const;
  std::string path() const;                  // "model.layers.3.self_attn"
  std::vector<std::string> unused() const;   // whole checkpoint
  std::vector<std::string> missing() const;  // whole checkpoint
  int64_t total_bytes() const;               // whole checkpoint, as stored

  struct Root;
  explicit Weights(std::shared_ptr<Root> root, std::string prefix = {});

 private:
  std::shared_ptr<Root> root_;
  std::string prefix_;
};

}  // namespace mlxcel::io

// Building blocks that hide weight formats from the families.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "io/weights.h"
#include "ops/ops.h"
#include "tensor/matrix_rows.h"
#include "tensor/tensor.h"

namespace mlxcel::nn {

/// How a weight is cut across tensor-parallel ranks. Row needs an all-reduce of the output.
enum class Parallel : uint8_t { None, Column, Row };

/// Whether a projection has a bias: as the config says, or as the checkpoint has it when the config
/// is silent.
enum class Bias : uint8_t { IfPresent, None, Required };

/// y = x W^T + b. The storage format is read from the checkpoint. A missing weight is recorded in
/// the checkpoint's list (io::Weights::missing) and nothing is allocated for it; such a Linear must
/// not be called.
class Linear {
 public:
  Linear(const io::Weights& w, int64_t in_features, int64_t out_features,
         Parallel parallel = Parallel::None, Bias bias = Bias::IfPresent);
  Tensor operator()(const Tensor& x) const;  // [T, in_features] -> [T, out_features]
  Tensor logits(const Tensor& x) const;      // the same in f32, whatever the type of x
  int64_t weight_bytes() const;

 private:
  std::shared_ptr<const ops::PackedMatrix> weight_;
  Tensor bias_;  // [out_features] f32, null without a bias
};

/// Several projections of the same input. Neighbours whose storage formats agree run as one
/// product.
class StackedLinear {
 public:
  struct Part {
    io::Weights weights;
    int64_t out_features = 0;
    Bias bias = Bias::IfPresent;
    /// Set when the part is some rows of a stored matrix of `stored_rows` rows.
    std::vector<RowRange> rows{};
    int64_t stored_rows = 0;
  };
  StackedLinear(std::span<const Part> parts, int64_t in_features,
                Parallel parallel = Parallel::None);

  /// The outputs of x [T, in_features], part by part, as heads: [T, out_features / head_dim,
  /// head_dim]. Parts of one product are views of it, so their rows may be strided.
  std::vector<Tensor> heads(const Tensor& x, int64_t head_dim) const;
  /// All columns in order, [T, sum of out_features]; only when fused().
  Tensor fused_output(const Tensor& x) const;
  bool fused() const { return runs_.size() == 1; }
  int64_t weight_bytes() const;

 private:
  /// Neighbouring parts that share one product.
  struct Run {
    std::shared_ptr<const ops::PackedMatrix> weight;
    Tensor bias;
    std::vector<int64_t> out_features;
  };
  std::vector<Run> runs_;
};

/// Token embedding; the same table serves as the output head when the checkpoint ties them.
class Embedding {
 public:
  Embedding(const io::Weights& w, int64_t vocab_size, int64_t hidden_size);
  Tensor operator()(const Tensor& token_ids) const;  // [T] i32 -> [T, D]
  Tensor logits(const Tensor& x) const;              // [R, D] -> [R, V] f32
  int64_t weight_bytes() const;

 private:
  std::shared_ptr<const ops::PackedMatrix> table_;
};

/// y = x / sqrt(mean(x^2) + eps) * (g + offset), over the last axis.
class RmsNorm {
 public:
  RmsNorm(const io::Weights& w, int64_t dim, float eps, float offset = 0.0F);
  Tensor operator()(const Tensor& x) const;  // [..., dim] -> [..., dim]
  ops::AddNorm add(const Tensor& x,
                   const Tensor& delta) const;  // sum = x + delta, normed = norm(sum)
  int64_t weight_bytes() const { return gain_.bytes(); }

 private:
  Tensor gain_;
  float eps_, offset_;
};

/// down(silu(gate(x)) * up(x)).
class SwiGlu {
 public:
  SwiGlu(const io::Weights& w, int64_t hidden_size, int64_t intermediate_size,
         Bias bias = Bias::IfPresent);
  Tensor operator()(const Tensor& x) const;  // [T, D] -> [T, D]
  int64_t weight_bytes() const;

 private:
  StackedLinear gate_up_;
  int64_t intermediate_size_;
  Linear down_;
};

}  // namespace mlxcel::nn

// Building blocks that hide weight formats from the families.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "io/weights.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

namespace mlxcel::nn {

/// How a weight is cut across tensor-parallel ranks. Row needs an all-reduce of the output.
enum class Parallel : uint8_t { None, Column, Row };

/// y = x W^T + b. The storage format is read from the checkpoint; the bias is loaded when the
/// checkpoint has one.
class Linear {
 public:
  Linear(const io::Weights& w, int64_t in_features, int64_t out_features,
         Parallel parallel = Parallel::None);
  /// Several projections of the same input as one product when their formats agree, else side by
  /// side. Output columns are the parts in order.
  struct Part {
    io::Weights weights;
    int64_t out_features;
  };
  static Linear stacked(std::span<const Part> parts, int64_t in_features,
                        Parallel parallel = Parallel::None);
  Linear(Linear&&) noexcept;
  Linear& operator=(Linear&&) noexcept;
  ~Linear();
  Tensor operator()(const Tensor& x) const;  // [T, in_features] -> [T, out_features]
  int64_t weight_bytes() const;

 private:
  Linear();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Token embedding; the same table serves as the output head when the checkpoint ties them.
class Embedding {
 public:
  Embedding(const io::Weights& w, int64_t vocab_size, int64_t hidden_size);
  Tensor operator()(const Tensor& token_ids) const;  // [T] i32 -> [T, D]
  Tensor logits(const Tensor& x) const;              // [R, D] -> [R, V]
  int64_t weight_bytes() const;

 private:
  std::shared_ptr<const ops::PackedMatrix> table_;
};

/// y = x / sqrt(mean(x^2) + eps) * (g + offset), over the last axis.
class RmsNorm {
 public:
  RmsNorm(const io::Weights& w, int64_t dim, float eps, float offset = 0.0F);
  Tensor operator()(const Tensor& x) const;
  ops::AddNorm add(const Tensor& x,
                   const Tensor& delta) const;  // sum = x + delta, normed = norm(sum)

 private:
  Tensor gain_;
  float eps_, offset_;
};

/// down(silu(gate(x)) * up(x)).
class SwiGlu {
 public:
  SwiGlu(const io::Weights& w, int64_t hidden_size, int64_t intermediate_size);
  Tensor operator()(const Tensor& x) const;  // [T, D] -> [T, D]
  int64_t weight_bytes() const;

 private:
  Linear gate_up_, down_;
};

}  // namespace mlxcel::nn

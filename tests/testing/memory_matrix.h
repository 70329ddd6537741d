// Weight matrices in memory, for tests and benchmarks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/matrix_source.h"

namespace mlxcel::testing {

/// A matrix of pseudo-random codes and scales (affine) or values (dense), fixed by its seed.
class MemoryMatrix final : public MatrixSource {
 public:
  MemoryMatrix(WeightFormat format, int64_t rows, int64_t cols, uint64_t seed = 1);
  const WeightFormat& format() const override { return format_; }
  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  const std::string& name() const override { return name_; }
  int64_t stored_bytes() const override;
  void read_affine(int64_t row_begin, int64_t count, uint8_t* codes, float* scales,
                   float* biases) const override;
  void read_sub_scales(int64_t row_begin, int64_t count, const SubScales& out) const override;
  void read_f32(int64_t row_begin, int64_t count, float* out) const override;
  /// Null when `scattered`, as for tensors that are not contiguous in their file.
  const void* dense_rows(int64_t row_begin) const override;
  void release_rows(int64_t row_begin, int64_t count) const noexcept override;

  bool scattered = false;
  /// How many different rows have been released so far.
  int64_t released() const {
    return std::count_if(released_.begin(), released_.end(),
                         [](const auto& r) { return r.load(); });
  }
  std::vector<uint8_t>& codes() { return codes_; }
  std::vector<uint8_t>& dense() { return dense_; }

 private:
  void make_sub_scales(uint64_t seed);
  WeightFormat format_;
  int64_t rows_, cols_;
  std::string name_ = "memory";
  std::vector<uint8_t> codes_;                         // [rows][cols]
  std::vector<float> scales_, biases_;                 // [rows][cols / group]
  std::vector<uint16_t> super_scales_, super_biases_;  // [rows][cols / 256]
  std::vector<int8_t> sub_scales_, sub_biases_;        // [rows][cols / group]
  std::vector<uint8_t> dense_;                         // [rows][cols] of the dense type
  mutable std::vector<std::atomic<bool>> released_;    // by row
};

/// Uniform values in [-1, 1), fixed by seed and index (splitmix64).
std::vector<float> random_floats(int64_t n, uint64_t seed);

WeightFormat dense_format(DType type);
WeightFormat affine_format(int bits, int group, DType scale_type, bool symmetric);

/// The formats of Q2_K to Q6_K, for bits 2 to 6.
WeightFormat k_quant_format(int bits);

}  // namespace mlxcel::testing

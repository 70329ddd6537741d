#include <vector>

#include "backend/ref/ref.h"

namespace mlxcel::ref {

void linear(const float* x, int64_t m, const MatrixSource& w, const float* bias, float* y) {
  const int64_t cols = w.cols();
  const auto n = static_cast<size_t>(cols);
  const bool affine = w.format().kind == WeightFormat::Kind::Affine;
  const int64_t group = affine ? w.format().group : 1;
  std::vector<double> row(n);
  std::vector<float> values(n), scales(n), biases(n);
  std::vector<uint8_t> codes(n);
  for (int64_t r = 0; r < w.rows(); ++r) {
    if (affine) {
      w.read_affine(r, 1, codes.data(), scales.data(), biases.data());
      for (size_t k = 0; k < n; ++k) {
        const size_t g = k / static_cast<size_t>(group);
        row[k] = static_cast<double>(scales[g]) * codes[k] + static_cast<double>(biases[g]);
      }
    } else {
      w.read_f32(r, 1, values.data());
      for (size_t k = 0; k < n; ++k) row[k] = static_cast<double>(values[k]);
    }
    for (int64_t i = 0; i < m; ++i) {
      double sum = bias != nullptr ? static_cast<double>(bias[r]) : 0.0;
      for (int64_t k = 0; k < cols; ++k) {
        sum += static_cast<double>(x[i * cols + k]) * row[static_cast<size_t>(k)];
      }
      y[i * w.rows() + r] = static_cast<float>(sum);
    }
  }
}

}  // namespace mlxcel::ref

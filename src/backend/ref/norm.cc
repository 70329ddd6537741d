#include <cmath>

#include "backend/ref/ref.h"

namespace mlxcel::ref {

void rms_norm(const ops::NormArgs& a) {
  const int64_t n = a.x.dim;
  for (int64_t r = 0; r < a.x.rows(); ++r) {
    const float* x = a.x.row(r);
    if (a.delta.data != nullptr) {
      for (int64_t i = 0; i < n; ++i) a.sum[r * n + i] = x[i] + a.delta.row(r)[i];
      x = a.sum + r * n;
    }
    double squares = 0;
    for (int64_t i = 0; i < n; ++i)
      squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    const double factor =
        1.0 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(a.eps));
    for (int64_t i = 0; i < n; ++i) {
      const double gain = static_cast<double>(a.gain[i]) + static_cast<double>(a.offset);
      a.out[r * n + i] = static_cast<float>(static_cast<double>(x[i]) * factor * gain);
    }
  }
}

void layer_norm(const ops::NormArgs& a) {
  const int64_t n = a.x.dim;
  for (int64_t r = 0; r < a.x.rows(); ++r) {
    const float* x = a.x.row(r);
    double mean = 0;
    for (int64_t i = 0; i < n; ++i) mean += static_cast<double>(x[i]);
    mean /= static_cast<double>(n);
    double variance = 0;
    for (int64_t i = 0; i < n; ++i) variance += std::pow(static_cast<double>(x[i]) - mean, 2);
    variance /= static_cast<double>(n);
    const double factor = 1.0 / std::sqrt(variance + static_cast<double>(a.eps));
    for (int64_t i = 0; i < n; ++i) {
      double y = (static_cast<double>(x[i]) - mean) * factor;
      if (a.gain != nullptr) y *= static_cast<double>(a.gain[i]);
      if (a.bias != nullptr) y += static_cast<double>(a.bias[i]);
      a.out[r * n + i] = static_cast<float>(y);
    }
  }
}

}  // namespace mlxcel::ref

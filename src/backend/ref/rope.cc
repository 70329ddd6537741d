#include <cmath>

#include "backend/ref/ref.h"

namespace mlxcel::ref {

void rope(const ops::RopeArgs& a) {
  for (int64_t t = 0; t < a.tokens; ++t) {
    const float* inv_freq = a.frequencies(a.positions[t]);
    for (int64_t h = 0; h < a.heads; ++h) {
      float* x = a.x + t * a.x_stride + h * a.head_dim;
      for (int64_t i = 0; i < a.half; ++i) {
        const float angle = static_cast<float>(a.positions[t]) * inv_freq[i];
        const double c =
            std::cos(static_cast<double>(angle)) * static_cast<double>(a.attention_factor);
        const double s =
            std::sin(static_cast<double>(angle)) * static_cast<double>(a.attention_factor);
        float& first = x[a.interleaved ? 2 * i : i];
        float& second = x[a.interleaved ? 2 * i + 1 : i + a.half];
        const auto p = static_cast<double>(first);
        const auto q = static_cast<double>(second);
        first = static_cast<float>(p * c - q * s);
        second = static_cast<float>(q * c + p * s);
      }
    }
  }
}

}  // namespace mlxcel::ref

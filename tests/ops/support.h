// What the op tests share: levels in turn, comparison with a tolerance, bit comparison.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "backend/register.h"
#include "ops/activations.h"
#include "ops/isa.h"
#include "ops/ops.h"
#include "tensor/tensor.h"
#include "testing/memory_matrix.h"

namespace mlxcel::testing {

/// Runs `fn` once for each instruction-set level of this machine.
inline void for_each_level(const std::function<void()>& fn) {
  backend::register_all();
  const ops::Isa before = ops::cpu_level();
  for (const ops::Isa isa : ops::available_cpu_isas()) {
    SCOPED_TRACE(::testing::Message() << "level " << ops::isa_name(isa));
    ops::set_cpu_level(isa);
    fn();
  }
  ops::set_cpu_level(before);
}

/// The same with activations of matrix products as they are.
inline void for_each_f32_level(const std::function<void()>& fn) {
  const ops::Activations before = ops::cpu_activations();
  ops::set_cpu_activations(ops::Activations::F32);
  for_each_level(fn);
  ops::set_cpu_activations(before);
}

inline Tensor random_tensor(Shape shape, uint64_t seed, float factor = 1.0F) {
  auto values = random_floats(shape.numel(), seed);
  for (float& v : values) v *= factor;
  return Tensor::of(values, shape);
}

/// Largest |a - b|, relative to the largest |b|.
inline double relative_error(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  double size = 1e-30;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return INFINITY;
    if (std::isnan(a[i])) continue;
    worst = std::max(worst, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    size = std::max(size, std::fabs(static_cast<double>(b[i])));
  }
  return worst / size;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace mlxcel::testing

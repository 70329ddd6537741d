#include <algorithm>
#include <cmath>

#include "backend/ref/ref.h"

namespace mlxcel::ref {
namespace {

double silu(double x) { return x / (1.0 + std::exp(-x)); }

double activation(ops::Activation kind, double x) {
  switch (kind) {
    case ops::Activation::Silu:
      return silu(x);
    case ops::Activation::Gelu:
      return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
    case ops::Activation::GeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case ops::Activation::Relu:
      return x > 0 ? x : 0.0;
    case ops::Activation::Relu2:
      return x > 0 ? x * x : 0.0;
    case ops::Activation::Tanh:
      return std::tanh(x);
    case ops::Activation::Exp:
      return std::exp(x);
  }
  return 0.0;
}

template <class Fn>
void binary(const ops::BinaryArgs& a, Fn fn) {
  for (int64_t r = 0; r < a.a.rows(); ++r) {
    for (int64_t i = 0; i < a.a.dim; ++i) {
      a.out[r * a.a.dim + i] = static_cast<float>(
          fn(static_cast<double>(a.a.row(r)[i]), static_cast<double>(a.b.row(r)[i])));
    }
  }
}

template <class Args, class Fn>
void unary(const Args& a, Fn fn) {
  for (int64_t r = 0; r < a.x.rows(); ++r) {
    for (int64_t i = 0; i < a.x.dim; ++i) {
      a.out[r * a.x.dim + i] = static_cast<float>(fn(static_cast<double>(a.x.row(r)[i])));
    }
  }
}

}  // namespace

void register_elementwise(ops::OpTable& t) {
  t.add = [](const ops::BinaryArgs& a) { binary(a, [](double x, double y) { return x + y; }); };
  t.mul = [](const ops::BinaryArgs& a) { binary(a, [](double x, double y) { return x * y; }); };
  t.silu_mul = [](const ops::BinaryArgs& a) {
    binary(a, [](double gate, double up) { return silu(gate) * up; });
  };
  t.scale = [](const ops::UnaryArgs& a) {
    unary(a, [&](double x) { return x * static_cast<double>(a.parameter); });
  };
  t.softcap = [](const ops::UnaryArgs& a) {
    const auto cap = static_cast<double>(a.parameter);
    unary(a, [&](double x) { return cap * std::tanh(x / cap); });
  };
  t.clamp = [](const ops::UnaryArgs& a) {
    const auto limit = static_cast<double>(a.parameter);
    unary(a, [&](double x) { return x > limit ? limit : x < -limit ? -limit : x; });
  };
  t.xielu = [](const ops::XieluArgs& a) {
    const double p = static_cast<double>(a.options.alpha_p);
    const double n = static_cast<double>(a.options.alpha_n);
    const double beta = static_cast<double>(a.options.beta);
    const double eps = static_cast<double>(a.options.eps);
    unary(a, [&](double x) {
      return x > 0 ? p * x * x + beta * x : n * (std::expm1(std::min(x, eps)) - x) + beta * x;
    });
  };
  t.position_factors = [](const ops::PositionFactorsArgs& a) {
    for (int64_t i = 0; i < a.count; ++i) {
      const auto turns = static_cast<double>(a.positions[i] / a.period);
      a.out[i] = static_cast<float>(1.0 + static_cast<double>(a.beta) * std::log(1.0 + turns));
    }
  };
  t.activate = [](const ops::UnaryArgs& a) {
    unary(a, [&](double x) { return activation(a.kind, x); });
  };
  t.copy_rows = [](const ops::UnaryArgs& a) { unary(a, [](double x) { return x; }); };
  t.argmax_rows = [](const ops::ArgmaxArgs& a) {
    for (int64_t r = 0; r < a.x.rows(); ++r) {
      const float* x = a.x.row(r);
      int32_t best = -1;
      for (int64_t i = 0; i < a.x.dim; ++i) {
        if (x[i] > (best < 0 ? -INFINITY : x[best])) best = static_cast<int32_t>(i);
      }
      for (int64_t i = 0; i < a.x.dim; ++i) {
        if (std::isnan(x[i])) best = -1;
      }
      a.out[r] = best;
    }
  };
  t.take_rows = [](const ops::TakeRowsArgs& a) {
    for (int64_t i = 0; i < a.count; ++i) {
      for (int64_t d = 0; d < a.x.dim; ++d) a.out[i * a.x.dim + d] = a.x.row(a.ids[i])[d];
    }
  };
}

}  // namespace mlxcel::ref

#include "nn/activation.h"

#include <fmt/core.h>

#include <array>
#include <utility>

#include "base/error.h"

namespace mlxcel::nn {
namespace {

using ops::Activation;

// gelu_fast rounds sqrt(2 / pi) to 0.7978845608 and is otherwise the tanh form.
constexpr std::array<std::pair<std::string_view, Activation>, 11> kNames = {{
    {"silu", Activation::Silu},
    {"swish", Activation::Silu},
    {"gelu", Activation::Gelu},
    {"gelu_python", Activation::Gelu},
    {"gelu_new", Activation::GeluTanh},
    {"gelu_fast", Activation::GeluTanh},
    {"gelu_pytorch_tanh", Activation::GeluTanh},
    {"gelu_python_tanh", Activation::GeluTanh},
    {"gelu_accurate", Activation::GeluTanh},
    {"relu", Activation::Relu},
    {"relu2", Activation::Relu2},
}};

}  // namespace

Activation activation_from(const io::Config& c, std::string_view key, std::string_view fallback) {
  const std::string given = c.str_or(key, fallback);
  std::string known;
  for (const auto& [name, kind] : kNames) {
    if (name == given) return kind;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  }
  throw Error(Code::Unsupported, fmt::format("{}: {} = \"{}\" is not supported (known: {})",
                                             c.source(), key, given, known));
}

}  // namespace mlxcel::nn

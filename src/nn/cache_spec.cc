#include <utility>

#include "base/error.h"
#include "nn/causal_lm.h"

namespace mlxcel::nn {
namespace {

int32_t narrow(int64_t value) {
  MLXCEL_CHECK(value > 0 && value <= INT32_MAX, "cache dimension out of range");
  return static_cast<int32_t>(value);
}

}  // namespace

CacheSpec CacheSpec::full(int64_t num_kv_heads, int64_t head_dim) {
  CacheSpec spec;
  spec.kind = Kind::Full;
  spec.num_kv_heads = narrow(num_kv_heads);
  spec.k_dim = spec.v_dim = narrow(head_dim);
  return spec;
}

CacheSpec CacheSpec::sliding(int64_t num_kv_heads, int64_t head_dim, int64_t window) {
  CacheSpec spec = full(num_kv_heads, head_dim);
  spec.kind = Kind::Window;
  spec.window = narrow(window);
  return spec;
}

CacheSpec CacheSpec::recurrent(std::vector<Shape> state) {
  CacheSpec spec;
  spec.kind = Kind::Recurrent;
  spec.state = std::move(state);
  return spec;
}

CacheSpec CacheSpec::latent(int64_t dim) {
  CacheSpec spec;
  spec.kind = Kind::Latent;
  spec.num_kv_heads = 1;
  spec.k_dim = narrow(dim);
  return spec;
}

}  // namespace mlxcel::nn

#include <algorithm>
#include <string_view>

#include "backend/cuda/cuda.h"

namespace mlxcel::cuda {

void register_ops(ops::OpTable& t) {
  t.rms_norm = rms_norm;
  t.layer_norm = layer_norm;
  t.add = add;
  t.mul = mul;
  t.silu_mul = silu_mul;
  t.scale = scale;
  t.activate = activate;
  t.softcap = softcap;
  t.clamp = clamp;
  t.sigmoid = sigmoid;
  t.copy_rows = copy_rows;
  t.argmax_rows = argmax_rows;
  t.take_rows = take_rows;
  t.rope = rope;
  t.kv_append = kv_append;
  t.rope_append = rope_append;
  t.attention = attention;
}

// The list reads "90a-real;80-real". Code for 90a runs on 9.0 alone, other code on its own major
// version from its minor version on.
bool has_code_for(int compute_capability) {
  std::string_view list = MLXCEL_CUDA_ARCHITECTURES;
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find(';'));
    list.remove_prefix(std::min(entry.size() + 1, list.size()));
    int built_for = 0;
    size_t digits = 0;
    while (digits < entry.size() && entry[digits] >= '0' && entry[digits] <= '9') {
      built_for = built_for * 10 + (entry[digits++] - '0');
    }
    const bool exact = digits < entry.size() && entry[digits] == 'a';
    const bool same_major = built_for / 10 == compute_capability / 10;
    if (exact ? built_for == compute_capability : same_major && built_for <= compute_capability) {
      return true;
    }
  }
  return false;
}

}  // namespace mlxcel::cuda

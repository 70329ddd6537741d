#include "backend/ref/ref.h"

namespace mlxcel::ref {

const ops::OpTable& op_table() {
  static const ops::OpTable table = [] {
    ops::OpTable t;
    t.rms_norm = rms_norm;
    t.layer_norm = layer_norm;
    t.rope = rope;
    t.kv_append = kv_append;
    t.attention = attention;
    register_elementwise(t);
    register_experts(t);
    register_recurrent(t.recurrent);
    return t;
  }();
  return table;
}

}  // namespace mlxcel::ref

// Parts of the CUDA backend that its files share. Kernels take the argument structures of the op
// tables and launch on cuda::stream().
#pragma once

#include <string>

#include "ops/kernel_table.h"
#include "ops/op_table.h"

namespace mlxcel::cuda {

// ---- registration, called by backend::register_all
/// Registers the device; false when there is none.
bool register_runtime();
/// Looks for a device, once. Empty when there is one, else why there is none.
const std::string& unavailable_reason();
void register_linear(ops::KernelTable& table);
void register_ops(ops::OpTable& table);
/// Whether this build has machine code that a device of this compute capability (times ten) runs.
bool has_code_for(int compute_capability);

// ---- one launch function an op
void rms_norm(const ops::NormArgs& args);
void layer_norm(const ops::NormArgs& args);
void add(const ops::BinaryArgs& args);
void mul(const ops::BinaryArgs& args);
void silu_mul(const ops::BinaryArgs& args);
void scale(const ops::UnaryArgs& args);
void activate(const ops::UnaryArgs& args);
void softcap(const ops::UnaryArgs& args);
void clamp(const ops::UnaryArgs& args);
void sigmoid(const ops::UnaryArgs& args);
void copy_rows(const ops::UnaryArgs& args);
void argmax_rows(const ops::ArgmaxArgs& args);
void take_rows(const ops::TakeRowsArgs& args);
void rope(const ops::RopeArgs& args);
void rope_append(const ops::RopeAppendArgs& args);
void kv_append(const ops::KvAppendArgs& args);
void attention(const ops::AttentionArgs& args);
void linear(const ops::LinearArgs& args);
void gather(const ops::GatherArgs& args);

}  // namespace mlxcel::cuda

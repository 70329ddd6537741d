// Parts of the CPU backend that its files share.
#pragma once

#include "ops/kernel_table.h"
#include "ops/op_table.h"

namespace mlxcel::cpu {

// ---- registration, called by backend::register_all
void register_linear(ops::KernelTable& table);
/// Products with activations rounded to sixteen bits (int16_linear.cc); after register_linear.
void register_int16_linear(ops::KernelTable& table);
void register_ops(ops::OpTable& table);
void register_experts(ops::OpTable& table);
void register_recurrent(ops::RecurrentTable& table);  // called by register_ops

/// Choice of experts (router.cc).
void route(const ops::RouteArgs& args);

/// Paged attention (attention.cc).
void attention(const ops::AttentionArgs& args);

// ---- layout CpuTile16 (tile_layout.h)
/// Dense f32, f16, bf16 and f8e4m3 of any cols; affine bits 1..6 and 8, groups 16 to 128 that
/// divide cols, scales f32, f16 or bf16.
bool tile16_supports(const WeightFormat& format, int64_t cols);
ops::Packing tile16_packing();

}  // namespace mlxcel::cpu

// The sampling chain written plainly in float64, for comparison: full sorts, no shortcuts.
#pragma once

#include <span>
#include <vector>

#include "engine/sampler.h"

namespace mlxcel::engine::reference {

/// The distribution that the chain draws from, by token id; removed tokens have 0. XTC is applied
/// when `xtc_gate` says so. Mirostat and adaptive-p are not part of it.
struct Distribution {
  std::vector<double> p;
  double margin = 1;  // how close any keep-or-remove decision was; tiny = rounding may decide
};
Distribution chain(std::span<const float> logits, const SamplingParams& params,
                   const SamplerContext& context, std::span<const TokenId> history, bool xtc_gate);

/// Logits after bias and penalties.
std::vector<double> penalized(std::span<const float> logits, const SamplingParams& params,
                              const SamplerContext& context, std::span<const TokenId> history);

std::vector<double> softmax(const std::vector<double>& logits);

}  // namespace mlxcel::engine::reference

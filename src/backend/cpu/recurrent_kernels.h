// The inner kernels of the recurrent ops, compiled once for each instruction set. Every lane of a
// vector is one channel (or one value element of a head), whose sums run over states, keys or taps
// in order, so results depend on nothing but the lane's own inputs.
#pragma once

#include <cstdint>

#include "ops/recurrent_args.h"

namespace mlxcel::cpu {

struct RecurrentKernels {
  int64_t block;  // lanes that a kernel takes at once; threads share work in such blocks
  // Channels [begin, end) of one segment, token after token.
  void (*conv)(const ops::ConvArgs&, const ops::StateSegment&, int64_t begin, int64_t end);
  void (*selective)(const ops::SelectiveScanArgs&, const ops::StateSegment&, int64_t begin,
                    int64_t end);
  void (*rg_lru)(const ops::RgLruArgs&, const ops::StateSegment&, int64_t begin, int64_t end);
  // Value elements [begin, end) of one head of one segment.
  void (*ssd)(const ops::SsdArgs&, const ops::StateSegment&, int64_t head, int64_t begin,
              int64_t end);
  void (*delta)(const ops::DeltaArgs&, const ops::StateSegment&, int64_t head, int64_t begin,
                int64_t end);
  void (*rwkv7)(const ops::Rwkv7Args&, const ops::StateSegment&, int64_t head, int64_t begin,
                int64_t end);
  // One token (of one head).
  void (*softplus)(const ops::ColumnArgs&, int64_t token);
  void (*softplus_decay)(const ops::ColumnArgs&, int64_t token);
  void (*scale_columns)(const ops::ColumnArgs&, int64_t token);
  void (*block_linear)(const ops::BlockLinearArgs&, int64_t token, int64_t head);
  void (*head_dot_scale)(const ops::HeadDotArgs&, int64_t token);
};

extern const RecurrentKernels kRecurrentScalar;
#if defined(__x86_64__)
extern const RecurrentKernels kRecurrentAvx2;
extern const RecurrentKernels kRecurrentAvx512;
#endif

}  // namespace mlxcel::cpu

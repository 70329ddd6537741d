// Rows of a stored matrix in another order, for checkpoints that store several projections as one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/matrix_source.h"

namespace mlxcel {

struct RowRange {
  int64_t begin = 0, count = 0;
};

/// The rows of `ranges`, one range after the other. Throws InvalidArgument for a range outside the
/// matrix.
std::shared_ptr<const MatrixSource> select_rows(std::shared_ptr<const MatrixSource> source,
                                                std::vector<RowRange> ranges);

}  // namespace mlxcel

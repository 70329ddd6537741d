// Parts of stored matrices as matrices of their own, read through without a copy.
#pragma once

#include <cstdint>
#include <memory>

#include "tensor/matrix_source.h"

namespace mlxcel {

/// Rows begin, begin + step, ... of `source`, `count` of them. Throws InvalidArgument when they do
/// not lie in it.
std::shared_ptr<const MatrixSource> matrix_rows(std::shared_ptr<const MatrixSource> source,
                                                int64_t begin, int64_t count, int64_t step = 1);

/// The transpose of a matrix, dense: in its own element type, or in f32 for coded formats. Rows are
/// gathered from all rows of `source` whenever they are read.
std::shared_ptr<const MatrixSource> transposed(std::shared_ptr<const MatrixSource> source);

}  // namespace mlxcel

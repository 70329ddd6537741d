#include "tensor/matrix_source.h"

#include <fmt/core.h>

namespace mlxcel {

std::string WeightFormat::str() const {
  switch (kind) {
    case Kind::Dense:
      return fmt::format("dense {}", dtype_name(dense_type));
    case Kind::Affine:
      return fmt::format("affine{} g{} {}{}", bits, group, dtype_name(scale_type),
                         symmetric ? " symmetric" : "");
    case Kind::Mxfp4:
      return "mxfp4";
    case Kind::Mxfp8:
      return "mxfp8";
    case Kind::Nvfp4:
      return "nvfp4";
    case Kind::Fp8Block:
      return "fp8 blocks";
  }
  return "unknown";
}

}  // namespace mlxcel

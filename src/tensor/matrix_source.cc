#include "tensor/matrix_source.h"

#include <fmt/core.h>

#include "base/error.h"

namespace mlxcel {

std::string WeightFormat::str() const {
  switch (kind) {
    case Kind::Dense:
      return fmt::format("dense {}", dtype_name(dense_type));
    case Kind::Affine:
      return fmt::format("affine{} g{} {}{}", bits, group,
                         sub_scale_bits > 0 ? fmt::format("f16*i{}", sub_scale_bits)
                                            : std::string(dtype_name(scale_type)),
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

void MatrixSource::read_sub_scales(int64_t, int64_t, const SubScales&) const {
  throw Error(Code::Internal,
              fmt::format("{}: {} has no scales in two levels", name(), format().str()));
}

}  // namespace mlxcel

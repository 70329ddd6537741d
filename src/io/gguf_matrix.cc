#include "base/error.h"
#include "io/gguf.h"
#include "io/gguf_blocks.h"
#include "io/matrix_sources.h"

namespace mlxcel::io {

std::shared_ptr<const MatrixSource> gguf_matrix(const std::shared_ptr<const GgufFile>& file,
                                                const GgufTensor& tensor, int64_t permute_heads) {
  MatrixInfo info{.name = tensor.name, .rows = 1, .cols = 1};
  if (!tensor.dims.empty()) info.cols = tensor.dims.back();
  for (size_t i = 0; i + 1 < tensor.dims.size(); ++i) info.rows *= tensor.dims[i];
  info.order = {.rows = info.rows, .heads = permute_heads};
  info.file = tensor.file;
  const GgmlTraits* traits = ggml_traits(tensor.type);
  MLXCEL_CHECK(traits != nullptr, "a tensor of an unknown type");
  return with_context(file->path(), [&] {
    return traits->quantized ? gguf_block_matrix(std::move(info), *traits, tensor.data)
                             : dense_matrix(std::move(info), traits->dtype, tensor.data);
  });
}

}  // namespace mlxcel::io

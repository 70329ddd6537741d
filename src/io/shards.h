// Which weight files of a model directory belong to the model.
#pragma once

#include <string>
#include <vector>

namespace mlxcel::io {

struct WeightFiles {
  std::vector<std::string> safetensors;  // paths, sorted
  std::string gguf;                      // path, when there are no SafeTensors files
};

/// Follows model.safetensors.index.json when all files it names exist. A stale index (it names
/// files that are not there while others are) gives a warning and all *.safetensors files. Without
/// an index all of them too, leaving out adapters and Mistral's second copy ("consolidated*") where
/// other files remain. Without any, the one GGUF model of the directory. Throws NotFound when the
/// directory cannot be read or holds no weights, Corrupt for a malformed index, InvalidArgument for
/// several GGUF models.
WeightFiles find_weight_files(const std::string& directory);

}  // namespace mlxcel::io

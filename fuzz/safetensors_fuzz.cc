// Any bytes as a SafeTensors file: either an Error, or tensors that can be read to their last byte.
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "io/safetensors.h"
#include "memory_file.h"
#include "tensor/shape.h"

namespace {

void read(const mlxcel::io::SafetensorsFile& file) {
  size_t total = 0;
  for (const auto& t : file.tensors()) {
    const mlxcel::Shape shape(t.dims);
    if (static_cast<size_t>(shape.numel() * mlxcel::size_of(t.dtype)) != t.data.size())
      std::abort();
    unsigned sum = 0;
    for (const std::byte b : t.data) sum += std::to_integer<unsigned>(b);
    volatile unsigned sink = sum;
    (void)sink;
    total += t.data.size();
  }
  if (total > file.file()->size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mlxcel::log::set_level(mlxcel::log::Level::Off);
  const MemoryFile file(data, size);
  try {
    read(*mlxcel::io::SafetensorsFile::open(file.path()));
  } catch (const mlxcel::Error& e) {
    if (e.code() == mlxcel::Code::Internal) std::abort();
  }
  return 0;
}

// Any bytes as a GGUF file: either an Error, or metadata, a config and matrices that can be read.
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "io/config.h"
#include "io/gguf.h"
#include "io/gguf_model.h"
#include "memory_file.h"

namespace {

using mlxcel::io::GgufFile;

// Bad input ends in an Error; a broken invariant of ours must not.
template <class Fn>
void attempt(Fn&& fn) {
  try {
    fn();
  } catch (const mlxcel::Error& e) {
    if (e.code() == mlxcel::Code::Internal) std::abort();
  }
}

void read_values(const GgufFile& file) {
  for (const std::string_view key : file.keys()) {
    attempt([&] { file.i64_or(key, 0); });
    attempt([&] { file.f64_or(key, 0); });
    attempt([&] { file.str_or(key, ""); });
    attempt([&] { file.strings(key); });
    attempt([&] { file.f32s(key); });
    attempt([&] { file.i32s(key); });
  }
}

void read_matrix(const std::shared_ptr<const GgufFile>& file, const mlxcel::io::GgufTensor& tensor,
                 int64_t heads) {
  const auto m = mlxcel::io::gguf_matrix(file, tensor, heads);
  constexpr int64_t kMaxCols = 1 << 20, kMaxRows = 16;
  if (m->cols() > kMaxCols) return;
  std::vector<float> row(static_cast<size_t>(m->cols()));
  for (int64_t r = 0; r < std::min(m->rows(), kMaxRows); ++r) m->read_f32(r, 1, row.data());
  if (m->rows() > 0) m->read_f32(m->rows() - 1, 1, row.data());
  m->release_rows(0, m->rows());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mlxcel::log::set_level(mlxcel::log::Level::Off);
  const MemoryFile bytes(data, size);
  attempt([&] {
    const auto file = GgufFile::open(bytes.path());
    read_values(*file);
    attempt([&] { mlxcel::io::gguf_tokenizer_config(*file); });
    mlxcel::io::Config config;
    attempt(
        [&] { config = mlxcel::io::Config::from_json(mlxcel::io::gguf_config(*file), "fuzz"); });
    for (const auto& tensor : file->tensors()) {
      attempt([&] { mlxcel::io::gguf_tensor_name(*file, config, tensor.name); });
      attempt([&] { read_matrix(file, tensor, 0); });
      attempt([&] { read_matrix(file, tensor, 2); });
    }
  });
  return 0;
}

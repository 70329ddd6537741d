// Any bytes as config.json: either an Error, or a Config whose every accessor answers or throws
// one.
#include "base/error.h"
#include "base/log.h"
#include "io/config.h"
#include "io/quant_config.h"
#include "memory_file.h"

namespace {

template <class Fn>
void attempt(Fn&& fn) {
  try {
    fn();
  } catch (const mlxcel::Error& e) {
    if (e.code() == mlxcel::Code::Internal) std::abort();
  }
}

void read(const mlxcel::io::Config& c, int depth) {
  for (const auto& [key, value] : c.json().as_object()) {
    attempt([&] { c.i64(key); });
    attempt([&] { c.f64(key); });
    attempt([&] { c.f32_or(key, 1.0F); });
    attempt([&] { c.flag_or(key, false); });
    attempt([&] { c.str(key); });
    attempt([&] { c.i64s(key); });
    attempt([&] { c.size(key); });
    attempt([&] { c.expect(key, "x"); });
    if (value.is_object() && depth < 4) attempt([&] { read(c.at(key), depth + 1); });
  }
  if (!c.unread().empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mlxcel::log::set_level(mlxcel::log::Level::Off);
  const MemoryFile file(data, size);
  attempt([&] {
    const auto c = mlxcel::io::Config::load(file.path());
    read(c, 0);
    attempt([&] {
      const auto q = mlxcel::io::QuantConfig::from(c);
      (void)q.declared("model.layers.0");
      (void)q.ternary_scale_multiplies();
    });
  });
  return 0;
}

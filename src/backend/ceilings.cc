#include "backend/ceilings.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>

#include "base/thread_pool.h"
#include "ops/isa.h"
#include "tensor/buffer.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mlxcel::backend {
namespace {

using Clock = std::chrono::steady_clock;

// Results of loops in C++ go here, so that none is dropped.
volatile int64_t sink;

#if defined(__x86_64__)
// Twelve sums in registers that depend on nothing else, as in a matrix kernel. Written out, because
// compilers keep arrays of sums in memory.
#define MLXCEL_TWELVE(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11)
#define MLXCEL_STEPS(zero, step)                                                               \
  asm volatile(zero "1:\n\t" MLXCEL_TWELVE(step) "dec %0\n\tjnz 1b\n\t"                        \
               : "+r"(steps)                                                                   \
               :                                                                               \
               : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", \
                 "xmm9", "xmm10", "xmm11", "xmm12", "xmm15")
#define MLXCEL_F32(i) "vfmadd231ps %%ymm12, %%ymm12, %%ymm" #i "\n\t"
#define MLXCEL_F32_512(i) "vfmadd231ps %%zmm12, %%zmm12, %%zmm" #i "\n\t"
#define MLXCEL_INT16(i) \
  "vpmaddwd %%ymm12, %%ymm12, %%ymm15\n\tvpaddd %%ymm15, %%ymm" #i ", %%ymm" #i "\n\t"
#define MLXCEL_INT16_512(i) "vpdpwssd %%zmm12, %%zmm12, %%zmm" #i "\n\t"
#define MLXCEL_ZERO(i) "vpxor %%xmm" #i ", %%xmm" #i ", %%xmm" #i "\n\t"
#define MLXCEL_ZEROS MLXCEL_TWELVE(MLXCEL_ZERO) MLXCEL_ZERO(12)

__attribute__((target("avx2,fma"))) void f32_steps(int64_t steps) {
  MLXCEL_STEPS(MLXCEL_ZEROS, MLXCEL_F32);
  _mm256_zeroupper();
}
__attribute__((target("avx512f"))) void f32_steps_512(int64_t steps) {
  MLXCEL_STEPS(MLXCEL_ZEROS, MLXCEL_F32_512);
  _mm256_zeroupper();
}
__attribute__((target("avx2"))) void int16_steps(int64_t steps) {
  MLXCEL_STEPS(MLXCEL_ZEROS, MLXCEL_INT16);
  _mm256_zeroupper();
}
__attribute__((target("avx512f,avx512vnni"))) void int16_steps_512(int64_t steps) {
  MLXCEL_STEPS(MLXCEL_ZEROS, MLXCEL_INT16_512);
  _mm256_zeroupper();
}
__attribute__((target("avx2"))) void read_all(const uint8_t* p, int64_t n) {
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (int64_t i = 0; i + 128 <= n; i += 128) {
    const auto* v = reinterpret_cast<const __m256i*>(p + i);
    a = _mm256_add_epi64(a, _mm256_load_si256(v));
    b = _mm256_add_epi64(b, _mm256_load_si256(v + 1));
    c = _mm256_add_epi64(c, _mm256_load_si256(v + 2));
    d = _mm256_add_epi64(d, _mm256_load_si256(v + 3));
  }
  a = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
  sink = _mm256_extract_epi64(a, 0);
}
#endif
void portable_f32_steps(int64_t steps) {
  float s[64] = {};
  for (int64_t n = 0; n < steps; ++n) {
    for (float& v : s) v = v * 0.5F + 0.5F;
  }
  sink = static_cast<int64_t>(s[0] + s[63]);
}
void portable_read_all(const uint8_t* p, int64_t n) {
  int64_t s = 0;
  for (int64_t i = 0; i + 8 <= n; i += 8) s += *reinterpret_cast<const int64_t*>(p + i);
  sink = s;
}

// The shortest of a few runs: anything else on the machine only adds.
constexpr int kRuns = 30;
template <class Fn>
double best_seconds(const Fn& fn) {
  double best = 1e30;
  for (int i = 0; i < kRuns; ++i) {
    const auto start = Clock::now();
    fn();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

// Operations a second of all threads, each running `step` on vectors of `lanes` products.
double rate(void (*steps)(int64_t), int64_t products_per_step) {
  ThreadPool& pool = ThreadPool::shared();
  const int64_t count = 200'000;
  const double seconds = best_seconds([&] {
    pool.parallel_for(pool.num_threads(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) steps(count);
    });
  });
  return static_cast<double>(count * products_per_step * 2 * pool.num_threads()) / 1e9 / seconds;
}

}  // namespace

Ceilings measure_ceilings() {
  Ceilings c;
  void (*read)(const uint8_t*, int64_t) = portable_read_all;
  c.f32_gflop_s = 0;
  const ops::Isa isa = ops::cpu_level();
#if defined(__x86_64__)
  if (isa >= ops::Isa::Avx2) {
    read = read_all;
    c.f32_gflop_s =
        isa >= ops::Isa::Avx512 ? rate(f32_steps_512, 12 * 16) : rate(f32_steps, 12 * 8);
    c.int16_gop_s =
        isa >= ops::Isa::Avx512Vnni ? rate(int16_steps_512, 12 * 32) : rate(int16_steps, 12 * 16);
  }
#endif
  (void)isa;
  if (c.f32_gflop_s == 0) c.f32_gflop_s = rate(portable_f32_steps, 64);
  const int64_t bytes = int64_t{160} << 20;
  const auto buffer = Buffer::host(bytes);
  auto* data = static_cast<uint8_t*>(buffer->data());
  ThreadPool& pool = ThreadPool::shared();
  pool.parallel_for(bytes / 4096, 1, [&](int64_t begin, int64_t end) {
    std::fill(data + begin * 4096, data + end * 4096, uint8_t{1});
  });
  c.read_gb_s = static_cast<double>(bytes) / 1e9 / best_seconds([&] {
                  pool.parallel_for(bytes / 4096, 1, [&](int64_t begin, int64_t end) {
                    read(data + begin * 4096, (end - begin) * 4096);
                  });
                });
  return c;
}

}  // namespace mlxcel::backend

// Compiling a region of a source file for one instruction set. Inside such a region only our own
// functions may be defined or instantiated: an inline function of the standard library compiled
// there could be picked by the linker for the whole program (ADR 7).
#pragma once

#define MLXCEL_PRAGMA(text) _Pragma(#text)

#if defined(__clang__)
#define MLXCEL_TARGET_BEGIN(features) \
  MLXCEL_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define MLXCEL_TARGET_END MLXCEL_PRAGMA(clang attribute pop)
#else
#define MLXCEL_TARGET_BEGIN(features) \
  MLXCEL_PRAGMA(GCC push_options) MLXCEL_PRAGMA(GCC target(features))
#define MLXCEL_TARGET_END MLXCEL_PRAGMA(GCC pop_options)
#endif

#define MLXCEL_AVX2_FEATURES "avx2,fma,f16c,bmi,bmi2"
#define MLXCEL_AVX512_FEATURES "avx2,fma,f16c,bmi,bmi2,avx512f,avx512bw,avx512vl,avx512dq"
#define MLXCEL_VNNI_FEATURES MLXCEL_AVX512_FEATURES ",avx512vnni"

#define MLXCEL_INLINE static inline __attribute__((always_inline))
#define MLXCEL_METHOD inline __attribute__((always_inline))

#if defined(__clang__)
#define MLXCEL_UNROLL _Pragma("unroll")
#else
#define MLXCEL_UNROLL _Pragma("GCC unroll 32")
#endif

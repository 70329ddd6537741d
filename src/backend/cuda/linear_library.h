// Large dense products by cuBLASLt, loaded when it is first wanted: the program runs without it.
#pragma once

#include <cstdint>

namespace mlxcel::cuda {

/// y[m, rows] = x[m, k] w[rows, k]^T, x and w bf16, sums in f32.
struct LibraryProduct {
  const void* x = nullptr;
  int64_t x_stride = 0;
  const void* w = nullptr;
  int64_t w_stride = 0;
  void* y = nullptr;  // f32, or bf16 with y_bf16; row-major, rows elements apart
  int64_t m = 0, rows = 0, k = 0;
  bool y_bf16 = false;
  bool accumulate = false;  // f32 only: adds to what y holds
};

/// Whether the library can be used here. A line in the log says why not, once.
bool library_available();
/// Runs a product by an algorithm that adds the columns one after the other; one algorithm serves
/// every m of a shape. False when the library offers none: nothing has been done then.
bool library_product(const LibraryProduct& p);
/// Says in the log that the library's sums of a shape differ from ours and are not used.
void report_disagreement(int64_t rows, int64_t cols, int64_t differences, int64_t sums);

}  // namespace mlxcel::cuda

// Unpacking small codes eight at a time in a 64-bit word.
#pragma once

#include <cstdint>

namespace mlxcel::io {

/// Spreads the eight B-bit codes in the low 8 * B bits, lowest first, to eight bytes, by halving
/// three times. Bits above are dropped. B is at most 6.
template <int B>
constexpr uint64_t spread8(uint64_t x) {
  static_assert(B >= 1 && B <= 6);
  constexpr uint64_t kFour = (uint64_t{1} << (4 * B)) - 1;
  constexpr uint64_t kTwo = ((uint64_t{1} << (2 * B)) - 1) * 0x0000000100000001U;
  constexpr uint64_t kOne = ((uint64_t{1} << B) - 1) * 0x0001000100010001U;
  x = (x & kFour) | ((x & (kFour << (4 * B))) << (32 - 4 * B));
  x = (x & kTwo) | ((x & (kTwo << (2 * B))) << (16 - 2 * B));
  return (x & kOne) | ((x & (kOne << B)) << (8 - B));
}

}  // namespace mlxcel::io

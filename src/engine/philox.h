// Counter-based random numbers: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A draw is a pure function of seed and counter, so a sequence gives the same
// text in any slot, in any batch and after being resumed.
#pragma once

#include <array>
#include <cstdint>

namespace mlxcel::engine {

/// Ten rounds over a 128-bit counter with a 64-bit key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Draw number `counter` of the stream `seed`: uniform in [0, 1) with 53 random bits.
double philox_uniform(uint64_t seed, uint64_t counter);

}  // namespace mlxcel::engine

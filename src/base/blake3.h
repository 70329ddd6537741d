// BLAKE3, hash mode with 32 bytes of output ("BLAKE3: one function, fast everywhere", O'Connor,
// Aumasson, Neves, Wilcox-O'Hearn, 2020, section 2). Portable and sequential.
#pragma once

#include <cstddef>
#include <span>

#include "base/sha256.h"

namespace mlxcel {

Digest256 blake3(std::span<const std::byte> data);

}  // namespace mlxcel

// SHA-256 (FIPS 180-4), through libcrypto.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace mlxcel {

using Digest256 = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(std::span<const std::byte> data);
  void update(std::string_view data);
  /// The digest of everything so far; the object starts anew afterwards.
  Digest256 finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

Digest256 sha256(std::string_view data);
/// Lower-case hexadecimal.
std::string hex(std::span<const uint8_t> bytes);

}  // namespace mlxcel

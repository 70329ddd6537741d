#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/error.h"

namespace mlxcel {

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  Impl() { restart(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { EVP_MD_CTX_free(context); }
  void restart() const {
    MLXCEL_CHECK(context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1,
                 "SHA-256 is not available in libcrypto");
  }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> data) {
  EVP_DigestUpdate(impl_->context, data.data(), data.size());
}

void Sha256::update(std::string_view data) {
  EVP_DigestUpdate(impl_->context, data.data(), data.size());
}

Digest256 Sha256::finish() {
  Digest256 out{};
  unsigned length = 0;
  EVP_DigestFinal_ex(impl_->context, out.data(), &length);
  impl_->restart();
  return out;
}

Digest256 sha256(std::string_view data) {
  Sha256 h;
  h.update(data);
  return h.finish();
}

std::string hex(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const uint8_t b : bytes) {
    out.push_back(kDigits[b >> 4]);
    out.push_back(kDigits[b & 15]);
  }
  return out;
}

}  // namespace mlxcel

// Server-side TLS with a self-signed certificate, for tests of https clients.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace mlxcel::testing {

class TlsStream {
 public:
  explicit TlsStream(void* ssl) : ssl_(ssl) {}
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;
  long read(char* data, size_t size);
  long write(const char* data, size_t size);

 private:
  void* ssl_;
};

class TlsContext {
 public:
  /// Makes a key and a certificate for 127.0.0.1 and localhost.
  TlsContext();
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  /// The server's side of the handshake; null when the client refuses.
  std::unique_ptr<TlsStream> accept(int fd);
  const std::string& certificate_pem() const { return pem_; }

 private:
  void* context_;
  std::string pem_;
};

}  // namespace mlxcel::testing

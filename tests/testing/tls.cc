#include "testing/tls.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <csignal>
#include <stdexcept>

namespace mlxcel::testing {
namespace {

X509* make_certificate(EVP_PKEY* key) {
  X509* cert = X509_new();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
  X509_NAME* name = X509_get_subject_name(cert);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(cert, name);
  X509_set_pubkey(cert, key);
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, cert, cert, nullptr, nullptr, 0);
  for (const auto& [nid, value] : {std::pair{NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1"},
                                   std::pair{NID_basic_constraints, "critical,CA:TRUE"}}) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
    X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
  }
  X509_sign(cert, key, EVP_sha256());
  return cert;
}

}  // namespace

TlsStream::~TlsStream() {
  auto* ssl = static_cast<SSL*>(ssl_);
  SSL_shutdown(ssl);
  SSL_free(ssl);
}

long TlsStream::read(char* data, size_t size) {
  return SSL_read(static_cast<SSL*>(ssl_), data, static_cast<int>(size));
}

long TlsStream::write(const char* data, size_t size) {
  return SSL_write(static_cast<SSL*>(ssl_), data, static_cast<int>(size));
}

TlsContext::TlsContext() {
  std::signal(SIGPIPE, SIG_IGN);  // libssl writes without MSG_NOSIGNAL
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* cert = make_certificate(key);
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  context_ = context;
  if (SSL_CTX_use_certificate(context, cert) != 1 || SSL_CTX_use_PrivateKey(context, key) != 1) {
    throw std::runtime_error("cannot make a certificate");
  }
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, cert);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  pem_.assign(data, static_cast<size_t>(size));
  BIO_free(bio);
  X509_free(cert);
  EVP_PKEY_free(key);
}

TlsContext::~TlsContext() { SSL_CTX_free(static_cast<SSL_CTX*>(context_)); }

std::unique_ptr<TlsStream> TlsContext::accept(int fd) {
  SSL* ssl = SSL_new(static_cast<SSL_CTX*>(context_));
  SSL_set_fd(ssl, fd);
  if (SSL_accept(ssl) == 1) return std::make_unique<TlsStream>(ssl);
  SSL_free(ssl);
  return nullptr;
}

}  // namespace mlxcel::testing

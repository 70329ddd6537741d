#include "base/utf8.h"
#include "text/tokenizer.h"

namespace mlxcel::text {
namespace {

// Decoding by what each token adds to a text.
class BytesStream final : public TokenStream {
 public:
  BytesStream(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  void push(TokenId id, std::string& out) override {
    if (skip_special_ && tokenizer_.is_special(id)) return;
    std::string_view bytes = tokenizer_.bytes(id);
    if (at_start_ && !bytes.empty()) {
      if (tokenizer_.strips_leading_space() && bytes.starts_with(' ')) bytes.remove_prefix(1);
      at_start_ = false;
    }
    pending_ += bytes;
    const size_t n = utf8::complete_prefix(pending_);
    out += utf8::repair(std::string_view(pending_).substr(0, n));
    pending_.erase(0, n);
  }
  void finish(std::string& out) override {
    out += utf8::repair(pending_);
    pending_.clear();
  }

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  bool at_start_ = true;
  std::string pending_;
};

}  // namespace

std::unique_ptr<TokenStream> Tokenizer::stream(bool skip_special) const {
  return std::make_unique<BytesStream>(*this, skip_special);
}

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special)
    : stream_(tokenizer.stream(skip_special)) {}

std::string Detokenizer::push(TokenId id) {
  std::string out;
  stream_->push(id, out);
  return out;
}

std::string Detokenizer::flush() {
  std::string out;
  stream_->finish(out);
  return out;
}

}  // namespace mlxcel::text

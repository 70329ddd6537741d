#include "base/utf8.h"
#include "text/gguf_tokenizer.h"
#include "text/unicode_hf.h"

namespace mlxcel::text {
namespace {

using unicode::Category;

class UnigramText final : public Normalizer {
 public:
  UnigramText(const GgufVocab& vocab, const std::vector<PieceType>& types)
      : map_(vocab.precompiled_charsmap),
        prefix_(vocab.add_space_prefix.value_or(true)),
        merge_(vocab.remove_extra_whitespaces.value_or(false)) {
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] == PieceType::UserDefined) verbatim_.add(vocab.tokens[i], 0);
    }
  }

  void apply(NormalizedText& text) const override {
    constexpr std::string_view kSpace = "\u2581";
    std::string out;
    bool prefixed = false, in_word = false;
    for (std::string_view rest = text.text; !rest.empty();) {
      size_t length = verbatim_.empty() ? 0 : verbatim_.longest_prefix(rest);
      std::string_view piece = rest.substr(0, length);
      if (length == 0 && !map_.find(rest, true, piece, length)) {
        unicode::next(rest, length);
        piece = rest.substr(0, length);
      }
      for (const char c : piece) {
        if (c == ' ') {
          in_word = false;
          if (!merge_) out += kSpace;
          continue;
        }
        if (!in_word && ((prefix_ && !prefixed) || merge_)) {
          out += kSpace;
          prefixed = true;
        }
        in_word = true;
        out += c;
      }
      rest.remove_prefix(length);
    }
    text.text = std::move(out);
  }

 private:
  CharsMap map_;
  ByteTrie verbatim_;
  bool prefix_, merge_;
};

}  // namespace

void LlamaCppBertText::apply(NormalizedText& text) const {
  unicode::normalize(text.text, unicode::Form::NFD);
  std::string out;
  out.reserve(text.text.size());
  for (size_t at = 0; at < text.text.size();) {
    const char32_t c = unicode::next(text.text, at);
    if (unicode::is_space(c)) {
      out += ' ';
      continue;
    }
    if (c == 0 || c == 0xFFFD || unicode::in(c, unicode::set_of(Category::Cc, Category::Cf)) ||
        unicode::in(c, unicode::kMark)) {
      continue;
    }
    unicode::append_lowercase(out, c);
  }
  text.text = std::move(out);
}

bool is_bert_word_of_its_own(char32_t c) {
  return unicode::in(c, unicode::kPunctuation) || (c < 0x7F && unicode::in(c, unicode::kSymbol)) ||
         unicode::is_bert_cjk(c);
}

std::unique_ptr<Normalizer> make_llama_cpp_unigram_normalizer(const GgufVocab& vocab,
                                                              const std::vector<PieceType>& types) {
  return std::make_unique<UnigramText>(vocab, types);
}

}  // namespace mlxcel::text

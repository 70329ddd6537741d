#include <fmt/core.h>

#include "text/bpe.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_json_scan.h"

namespace mlxcel::text {
namespace {

// A published vocabulary does not fit the caches near the core, so entries and merges are taken in
// groups: all slots of a group are fetched before the first is used.
constexpr size_t kGroup = 16;

struct Span {
  size_t begin, length;
};

class VocabFiller {
 public:
  explicit VocabFiller(Vocab& vocab) : vocab_(vocab) {}
  void add(TokenId id, std::string_view text) {
    entries_.push_back({id, {text_.size(), text.size()}, hash_bytes(text)});
    vocab_.prefetch(entries_.back().hash);
    text_ += text;
    if (entries_.size() == kGroup) flush();
  }
  void flush() {
    for (const Entry& e : entries_) {
      vocab_.add(e.id, std::string_view(text_).substr(e.text.begin, e.text.length), e.hash);
    }
    entries_.clear();
    text_.clear();
  }

 private:
  struct Entry {
    TokenId id;
    Span text;
    uint64_t hash;
  };
  Vocab& vocab_;
  std::vector<Entry> entries_;
  std::string text_;
};

void read_vocab(JsonCursor& cursor, ModelJson& model) {
  std::string buffer;
  VocabFiller filler(*model.vocab);
  if (cursor.peek() == '{') {
    cursor.object([&](std::string_view key) {
      const int64_t id = cursor.integer();
      if (id < 0 || id > kMaxTokenId) {
        cursor.fail(fmt::format("token id {} is outside 0..{}", id, kMaxTokenId));
      }
      filler.add(static_cast<TokenId>(id), key);
    });
    filler.flush();
    return;
  }
  model.scored = true;
  cursor.array([&] {
    cursor.expect('[');
    const std::string_view text = cursor.string(buffer);
    const auto id = static_cast<TokenId>(model.scores.size());
    if (id > kMaxTokenId) cursor.fail("the vocabulary is too large");
    filler.add(id, text);
    cursor.expect(',');
    model.scores.push_back(cursor.real());
    cursor.expect(']');
  });
  filler.flush();
}

/// Looks up the three tokens of each merge.
class MergeReader {
 public:
  MergeReader(JsonCursor& cursor, ModelJson& model) : cursor_(cursor), model_(model) {
    const Json* p = model.settings.find("continuing_subword_prefix");
    if (p != nullptr && p->is_string()) prefix_ = p->as_string();
  }

  void add(std::string_view left, std::string_view right) {
    const size_t begin = text_.size();
    text_ += left;
    text_ += right;
    const Span l{begin, left.size()}, r{begin + left.size(), right.size()};
    Span joined{begin, left.size() + right.size()};
    if (!prefix_.empty()) {
      if (right.size() < prefix_.size()) cursor_.fail("a merged token is shorter than the prefix");
      joined = {text_.size(), joined.length - prefix_.size()};
      text_ += left;
      text_ += right.substr(prefix_.size());
    }
    for (const Span span : {l, r, joined}) {
      lookups_.push_back({span, hash_bytes(view(span))});
      model_.vocab->prefetch(lookups_.back().hash);
    }
    if (lookups_.size() == 3 * kGroup) flush();
  }

  void flush() {
    for (size_t i = 0; i < lookups_.size(); i += 3) {
      const TokenId left = id_of(lookups_[i]), right = id_of(lookups_[i + 1]);
      model_.merges.emplace_back(left, right);
      model_.merged.push_back(id_of(lookups_[i + 2]));
    }
    lookups_.clear();
    text_.clear();
  }

 private:
  struct Lookup {
    Span span;
    uint64_t hash;
  };
  std::string_view view(Span s) const { return std::string_view(text_).substr(s.begin, s.length); }
  TokenId id_of(const Lookup& lookup) const {
    const std::string_view text = view(lookup.span);
    const TokenId id = model_.vocab->find(text, lookup.hash);
    if (id < 0) {
      cursor_.fail(fmt::format("the token \"{}\" of merge {} is not in the vocabulary", text,
                               model_.merged.size()));
    }
    return id;
  }

  JsonCursor& cursor_;
  ModelJson& model_;
  std::string prefix_, text_;
  std::vector<Lookup> lookups_;
};

void read_merges(JsonCursor& cursor, ModelJson& model) {
  std::string left_buffer, right_buffer;
  size_t count = 0;
  MergeReader reader(cursor, model);
  cursor.array([&] {
    if (cursor.peek() == '[') {
      cursor.expect('[');
      const std::string_view left = cursor.string(left_buffer);
      cursor.expect(',');
      const std::string_view right = cursor.string(right_buffer);
      cursor.expect(']');
      reader.add(left, right);
    } else {
      const std::string_view both = cursor.string(left_buffer);
      if (both.starts_with("#version")) return;
      const size_t space = both.find(' ');
      if (space == std::string_view::npos) {
        cursor.fail(fmt::format("merge {} is not two tokens and a space", count));
      }
      reader.add(both.substr(0, space), both.substr(space + 1));
    }
    ++count;
  });
  reader.flush();
}

}  // namespace

ModelJson read_model_json(std::string_view text) {
  ModelJson model;
  model.vocab = std::make_shared<Vocab>();
  std::string settings = "{";
  std::string_view vocab, merges;
  bool has_vocab = false;
  JsonCursor cursor(text);
  cursor.object([&](std::string_view key) {
    if (key == "vocab") {
      vocab = cursor.skip_value();
      has_vocab = true;
    } else if (key == "merges") {
      merges = cursor.skip_value();
      model.has_merges = true;
    } else {
      if (settings.size() > 1) settings += ',';
      append_json_string(settings, key);
      settings += ':';
      settings += cursor.skip_value();
    }
  });
  cursor.finish();
  settings += '}';
  model.settings = Json::parse(settings).value();
  if (!has_vocab) throw Error(Code::InvalidArgument, "\"vocab\" is missing");
  with_context("vocab", [&] {
    JsonCursor inner(vocab);
    model.vocab->reserve(vocab.size() / 20);
    read_vocab(inner, model);
    inner.finish();
  });
  if (model.has_merges) {
    with_context("merges", [&] {
      JsonCursor inner(merges);
      model.merges.reserve(merges.size() / 16);
      read_merges(inner, model);
      inner.finish();
    });
  }
  return model;
}

}  // namespace mlxcel::text

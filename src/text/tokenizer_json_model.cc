#include <fmt/core.h>

#include "text/bpe.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_json_scan.h"

namespace mlxcel::text {
namespace {

void read_vocab(JsonCursor& cursor, ModelJson& model) {
  std::string buffer;
  if (cursor.peek() == '{') {
    cursor.object([&](std::string_view key) {
      const int64_t id = cursor.integer();
      if (id < 0 || id > kMaxTokenId) {
        cursor.fail(fmt::format("token id {} is outside 0..{}", id, kMaxTokenId));
      }
      model.vocab->add(static_cast<TokenId>(id), key);
    });
    return;
  }
  model.scored = true;
  cursor.array([&] {
    cursor.expect('[');
    const std::string_view text = cursor.string(buffer);
    const auto id = static_cast<TokenId>(model.scores.size());
    if (id > kMaxTokenId) cursor.fail("the vocabulary is too large");
    model.vocab->add(id, text);
    cursor.expect(',');
    model.scores.push_back(cursor.real());
    cursor.expect(']');
  });
}

void read_merges(JsonCursor& cursor, ModelJson& model) {
  const Vocab& vocab = *model.vocab;
  std::string left_buffer, right_buffer, joined;
  std::string prefix;
  if (const Json* p = model.settings.find("continuing_subword_prefix"); p && p->is_string()) {
    prefix = p->as_string();
  }
  const auto id_of = [&](std::string_view text) {
    const TokenId id = vocab.find(text);
    if (id < 0) {
      cursor.fail(fmt::format("the token \"{}\" of merge {} is not in the vocabulary", text,
                              model.merges.size()));
    }
    return id;
  };
  cursor.array([&] {
    std::string_view left, right;
    if (cursor.peek() == '[') {
      cursor.expect('[');
      left = cursor.string(left_buffer);
      cursor.expect(',');
      right = cursor.string(right_buffer);
      cursor.expect(']');
    } else {
      const std::string_view both = cursor.string(left_buffer);
      if (both.starts_with("#version")) return;
      const size_t space = both.find(' ');
      if (space == std::string_view::npos) {
        cursor.fail(fmt::format("merge {} is not two tokens and a space", model.merges.size()));
      }
      left = both.substr(0, space);
      right = both.substr(space + 1);
    }
    const TokenId left_id = id_of(left), right_id = id_of(right);
    std::string_view tail = right;
    if (!prefix.empty()) {
      if (tail.size() < prefix.size()) cursor.fail("a merged token is shorter than the prefix");
      tail.remove_prefix(prefix.size());
    }
    joined.assign(left);
    joined += tail;
    model.merges.emplace_back(left_id, right_id);
    model.merged.push_back(id_of(joined));
  });
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
    model.vocab->reserve(vocab.size() / 16);
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

// The same bits whatever else is in the batch and however a prompt was cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "backend/register.h"
#include "golden/golden_case.h"
#include "golden/load_model.h"
#include "io/checkpoint.h"
#include "models/family.h"
#include "testing/direct_caches.h"
#include "testing/paths.h"

namespace mlxcel::testing {
namespace {

using Piece = DirectCaches::Piece;
constexpr size_t kLongest = 120;

std::vector<int32_t> random_tokens(uint32_t seed, size_t count, int64_t vocab) {
  std::mt19937 draw(seed);
  std::vector<int32_t> out;
  for (size_t i = 0; i < count; ++i) {
    out.push_back(static_cast<int32_t>(draw() % static_cast<uint32_t>(vocab)));
  }
  return out;
}

/// Logits of every token of `tokens`, fed `chunk` at a time.
std::vector<float> chunked(const nn::CausalLm& model, const std::vector<int32_t>& tokens,
                           size_t chunk) {
  DirectCaches caches(model.spec(), 1, static_cast<int64_t>(tokens.size()));
  caches.set_prompt_length(0, static_cast<int64_t>(tokens.size()));
  std::vector<float> out;
  for (size_t at = 0; at < tokens.size(); at += chunk) {
    const size_t end = std::min(at + chunk, tokens.size());
    const Piece piece{.sequence = 0,
                      .tokens = {tokens.begin() + static_cast<ptrdiff_t>(at),
                                 tokens.begin() + static_cast<ptrdiff_t>(end)},
                      .all_logits = true};
    const Tensor logits = caches.forward(model, {&piece, 1});
    out.insert(out.end(), logits.host<float>().begin(), logits.host<float>().end());
  }
  return out;
}

/// The same for several sequences that advance together in uneven steps, some absent in some steps.
std::vector<std::vector<float>> together(const nn::CausalLm& model,
                                         const std::vector<std::vector<int32_t>>& all) {
  DirectCaches caches(model.spec(), static_cast<int>(all.size()), kLongest);
  for (size_t s = 0; s < all.size(); ++s) {
    caches.set_prompt_length(static_cast<int>(s), static_cast<int64_t>(all[s].size()));
  }
  std::vector<std::vector<float>> out(all.size());
  std::vector<size_t> done(all.size(), 0);
  std::mt19937 draw(7);
  const auto vocab = static_cast<size_t>(model.spec().vocab_size);
  while (true) {
    std::vector<Piece> pieces;
    for (size_t s = 0; s < all.size(); ++s) {
      const size_t left = all[s].size() - done[s];
      if (left == 0 || draw() % 4 == 0) continue;
      const size_t take = std::min<size_t>(left, draw() % 3 == 0 ? 1 : 1 + draw() % 60);
      const auto begin = all[s].begin() + static_cast<ptrdiff_t>(done[s]);
      pieces.push_back({.sequence = static_cast<int>(s),
                        .tokens = {begin, begin + static_cast<ptrdiff_t>(take)},
                        .all_logits = true});
      done[s] += take;
    }
    if (!pieces.empty()) {
      const Tensor logits = caches.forward(model, pieces);
      auto row = logits.host<float>().begin();
      for (const Piece& piece : pieces) {
        const auto end = row + static_cast<ptrdiff_t>(piece.tokens.size() * vocab);
        auto& mine = out[static_cast<size_t>(piece.sequence)];
        mine.insert(mine.end(), row, end);
        row = end;
      }
    }
    const bool finished = std::ranges::equal(
        done, all, [](size_t n, const std::vector<int32_t>& tokens) { return n == tokens.size(); });
    if (finished) return out;
  }
}

class Invariance : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() { backend::register_all(); }
  void SetUp() override {
    const GoldenCase c = load_golden(GetParam());
    if (c.has_block_kinds()) {
      write_gguf_checkpoint(c, folder_.file("model.gguf"));
      model_ = load_for_test(folder_.file("model.gguf")).lm;
    } else {
      write_safetensors_checkpoint(c, folder_.path());
      model_ = load_for_test(folder_.path()).lm;
    }
    const auto vocab = model_->spec().vocab_size;
    const auto length = std::min(kLongest, static_cast<size_t>(model_->spec().max_positions));
    for (uint32_t s = 0; s < 4; ++s) {
      sequences_.push_back(random_tokens(s, length - 11 * s, vocab));
    }
  }
  TempDir folder_;
  std::unique_ptr<nn::CausalLm> model_;
  std::vector<std::vector<int32_t>> sequences_;
};

TEST_P(Invariance, ChunksDoNotChangeABit) {
  const auto whole = chunked(*model_, sequences_[0], sequences_[0].size());
  for (const size_t chunk : {size_t{1}, size_t{17}, size_t{64}}) {
    EXPECT_TRUE(chunked(*model_, sequences_[0], chunk) == whole) << "chunks of " << chunk;
  }
}

TEST_P(Invariance, NeighboursDoNotChangeABit) {
  const auto batched = together(*model_, sequences_);
  for (size_t s = 0; s < sequences_.size(); ++s) {
    EXPECT_TRUE(chunked(*model_, sequences_[s], sequences_[s].size()) == batched[s])
        << "sequence " << s;
  }
}

INSTANTIATE_TEST_SUITE_P(Text, Invariance, ::testing::ValuesIn(golden_names()),
                         [](const auto& name) {
                           std::string id = name.param;
                           std::ranges::replace(id, '/', '_');
                           return id;
                         });

}  // namespace
}  // namespace mlxcel::testing

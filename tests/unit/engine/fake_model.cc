#include "fake_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace mlxcel::engine::testing {
namespace {

uint64_t mix(uint64_t x) {  // splitmix64, Steele et al. 2014
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// In [-1, 1).
float unit(uint64_t bits) {
  return static_cast<float>(static_cast<double>(mix(bits) >> 11) * 0x1.0p-52 - 1.0);
}

uint64_t key_of(double x, uint64_t a, uint64_t b) {
  return mix(std::bit_cast<uint64_t>(x)) ^ mix(a * 1000003 + b);
}

double embed(int32_t token, int32_t position) {
  return unit(static_cast<uint64_t>(token) * 7919 + static_cast<uint64_t>(position) * 104729);
}

using Visit = std::function<std::span<const float>(int32_t position, int32_t head, bool value)>;

// One attention layer for one token: the keys and values of [first, position].
double attend(double x, uint64_t layer, const nn::CacheSpec& spec, int32_t first, int32_t position,
              const Visit& visit) {
  double out = 0;
  for (int32_t h = 0; h < spec.num_kv_heads; ++h) {
    double sum = 0;
    double weights = 0;
    for (int32_t p = first; p <= position; ++p) {
      const auto k = visit(p, h, false);
      double score = 0;
      for (size_t d = 0; d < k.size(); ++d) {
        score += unit(key_of(x, layer, d + 50)) * static_cast<double>(k[d]);
      }
      const double w = 1.0 / (1.0 + score * score);
      weights += w;
      for (const float v : visit(p, h, true)) sum += w * static_cast<double>(v);
    }
    out += sum / weights * (h + 1);
  }
  return x + out;
}

float kv_element(double x, size_t layer, int32_t head, int32_t d, bool value) {
  return unit(key_of(x, layer * 2 + (value ? 1 : 0),
                     static_cast<uint64_t>(head) * 100 + static_cast<uint64_t>(d)));
}

double recur(double x, std::span<float> state) {
  double out = x;
  for (size_t i = 0; i < state.size(); ++i) {
    state[i] = 0.75F * state[i] + unit(key_of(x, 77, i));
    out += static_cast<double>(state[i]) / static_cast<double>(i + 2);
  }
  return out;
}

float* element(const ops::PagedKv& kv, const ops::AttentionSegment& segment, int32_t position,
               int32_t head, bool value) {
  const int32_t block = segment.blocks[position / kv.block_tokens];
  MLXCEL_CHECK(block >= 0 && block < kv.num_blocks, "a visible position has no block");
  const int64_t dim = value ? kv.v_dim : kv.k_dim;
  const int64_t row =
      (int64_t{block} * kv.kv_heads + head) * kv.block_tokens + position % kv.block_tokens;
  return static_cast<float*>(value ? kv.v : kv.k) + row * dim;
}

}  // namespace

FakeConfig windowed_config(int32_t window) {
  FakeConfig c;
  c.layers = {nn::CacheSpec::sliding(1, 2, window), nn::CacheSpec::full(2, 3),
              nn::CacheSpec::sliding(2, 2, window), nn::CacheSpec::sliding(1, 4, window * 2)};
  return c;
}

FakeConfig hybrid_config() {
  FakeConfig c;
  nn::CacheSpec recurrent{.kind = nn::CacheSpec::Kind::Recurrent};
  recurrent.state = {Shape{3}, Shape{2, 2}};
  c.layers = {nn::CacheSpec::full(1, 2), recurrent, recurrent};
  return c;
}

FakeLm::FakeLm(FakeConfig config) {
  spec_.vocab_size = config.vocab_size;
  spec_.hidden_size = 1;
  spec_.intermediate_size = 1;
  spec_.max_positions = config.max_positions;
  spec_.caches = std::move(config.layers);
}

void FakeLm::logits(double x, int32_t token, std::span<float> out) const {
  for (size_t v = 0; v < out.size(); ++v) {
    out[v] = token == poison_token ? NAN : 4.0F * unit(key_of(x, 99, v));
  }
}

Tensor FakeLm::forward(const nn::Batch& batch) const {
  ++num_forwards;
  num_tokens += batch.token_ids.numel();
  largest_batch = std::max(largest_batch.load(), static_cast<int32_t>(batch.segments.size()));
  if (before_forward) before_forward(batch);
  const auto tokens = batch.token_ids.host<int32_t>();
  const auto positions = batch.positions.host<int32_t>();
  std::vector<double> x(tokens.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = embed(tokens[i], positions[i]);
  for (size_t l = 0; l < spec_.caches.size() && !trivial; ++l) {
    const nn::CacheSpec& spec = spec_.caches[l];
    const int layer = static_cast<int>(l);
    for (size_t s = 0; s < batch.segments.size(); ++s) {
      const nn::Segment& seg = batch.segments[s];
      const int32_t first_new = seg.kv_len - seg.q_len;
      if (spec.kind == nn::CacheSpec::Kind::Recurrent) {
        for (int32_t i = 0; i < seg.q_len; ++i) {
          double& value = x[static_cast<size_t>(seg.row + i)];
          for (int n = 0; n < static_cast<int>(spec.state.size()); ++n) {
            Tensor row = batch.caches->state(layer, n).slice(0, seg.cache_row, seg.cache_row + 1);
            value =
                recur(value, {static_cast<float*>(row.raw()), static_cast<size_t>(row.numel())});
          }
        }
        continue;
      }
      const ops::PagedKv kv = batch.caches->kv(layer);
      const ops::AttentionSegment segment = batch.caches->segments(layer)[s];
      for (int32_t i = 0; i < seg.q_len; ++i) {
        for (int32_t h = 0; h < kv.kv_heads; ++h) {
          for (const bool is_value : {false, true}) {
            float* out = element(kv, segment, first_new + i, h, is_value);
            for (int32_t d = 0; d < (is_value ? kv.v_dim : kv.k_dim); ++d) {
              out[d] = kv_element(x[static_cast<size_t>(seg.row + i)], l, h, d, is_value);
            }
          }
        }
      }
      const Visit visit = [&](int32_t p, int32_t h, bool is_value) {
        return std::span<const float>(element(kv, segment, p, h, is_value),
                                      static_cast<size_t>(is_value ? kv.v_dim : kv.k_dim));
      };
      for (int32_t i = 0; i < seg.q_len; ++i) {
        const int32_t p = first_new + i;
        const int32_t window = spec.window > 0 && kv.window > 0 ? std::min(spec.window, kv.window)
                                                                : std::max(spec.window, kv.window);
        const int32_t first = window > 0 ? std::max(0, p - window + 1) : 0;
        double& value = x[static_cast<size_t>(seg.row + i)];
        value = attend(value, l, spec, first, p, visit);
      }
    }
  }
  const auto rows = batch.logit_rows.host<int32_t>();
  Tensor out = Tensor::empty({static_cast<int64_t>(rows.size()), spec_.vocab_size}, DType::F32);
  const auto all = out.host_mut<float>();
  const auto vocab = static_cast<size_t>(spec_.vocab_size);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<size_t>(rows[i]);
    logits(x[row], tokens[row], all.subspan(i * vocab, vocab));
  }
  return out;
}

std::vector<std::vector<float>> FakeLm::reference(std::span<const int32_t> tokens) const {
  std::vector<double> x(tokens.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = embed(tokens[i], static_cast<int32_t>(i));
  for (size_t l = 0; l < spec_.caches.size() && !trivial; ++l) {
    const nn::CacheSpec& spec = spec_.caches[l];
    if (spec.kind == nn::CacheSpec::Kind::Recurrent) {
      std::vector<std::vector<float>> states;
      for (const Shape& shape : spec.state) {
        states.emplace_back(static_cast<size_t>(shape.numel()), 0.0F);
      }
      for (double& value : x) {
        for (auto& state : states) value = recur(value, state);
      }
      continue;
    }
    // [position][head][value] -> elements
    std::vector<float> storage;
    const auto per_token = static_cast<size_t>(spec.num_kv_heads * (spec.k_dim + spec.v_dim));
    for (const double value : x) {
      for (int32_t h = 0; h < spec.num_kv_heads; ++h) {
        for (int32_t d = 0; d < spec.k_dim; ++d) {
          storage.push_back(kv_element(value, l, h, d, false));
        }
        for (int32_t d = 0; d < spec.v_dim; ++d) {
          storage.push_back(kv_element(value, l, h, d, true));
        }
      }
    }
    const Visit visit = [&](int32_t p, int32_t h, bool is_value) {
      const size_t at = static_cast<size_t>(p) * per_token +
                        static_cast<size_t>(h * (spec.k_dim + spec.v_dim)) +
                        static_cast<size_t>(is_value ? spec.k_dim : 0);
      return std::span<const float>(storage.data() + at,
                                    static_cast<size_t>(is_value ? spec.v_dim : spec.k_dim));
    };
    for (size_t i = 0; i < x.size(); ++i) {
      const auto p = static_cast<int32_t>(i);
      const int32_t first = spec.window > 0 ? std::max(0, p - spec.window + 1) : 0;
      x[i] = attend(x[i], l, spec, first, p, visit);
    }
  }
  std::vector<std::vector<float>> out(tokens.size(),
                                      std::vector<float>(static_cast<size_t>(spec_.vocab_size)));
  for (size_t i = 0; i < x.size(); ++i) logits(x[i], tokens[i], out[i]);
  return out;
}

std::vector<text::TokenId> FakeTokenizer::encode(std::string_view,
                                                 const text::EncodeOptions&) const {
  throw Error(Code::Unsupported, "the engine does not encode text");
}

std::string FakeTokenizer::decode(std::span<const text::TokenId> ids, bool skip_special) const {
  std::string out;
  for (const text::TokenId id : ids) {
    if (!(skip_special && is_special(id))) out += bytes(id);
  }
  return out;
}

std::string_view FakeTokenizer::bytes(text::TokenId id) const {
  return id >= 0 && id < vocab_size() ? bytes_[static_cast<size_t>(id)] : std::string_view();
}

std::optional<text::TokenId> FakeTokenizer::id_of(std::string_view token) const {
  const auto it = std::ranges::find(bytes_, token);
  if (it == bytes_.end()) return std::nullopt;
  return static_cast<text::TokenId>(it - bytes_.begin());
}

std::shared_ptr<const FakeTokenizer> plain_tokenizer(int32_t vocab_size) {
  std::vector<std::string> bytes;
  for (int32_t i = 0; i < vocab_size; ++i) {
    bytes.push_back(fmt::format("{}{} ", static_cast<char>('a' + i % 26), i));
  }
  return std::make_shared<FakeTokenizer>(std::move(bytes));
}

ScriptedLm::ScriptedLm(int64_t vocab_size, int32_t num_prompt, std::vector<int32_t> script)
    : num_prompt_(num_prompt), script_(std::move(script)) {
  spec_.vocab_size = vocab_size;
  spec_.hidden_size = 1;
  spec_.max_positions = 4096;
  spec_.caches = {nn::CacheSpec::full(1, 1)};
}

Tensor ScriptedLm::forward(const nn::Batch& batch) const {
  const auto rows = batch.logit_rows.host<int32_t>();
  const auto positions = batch.positions.host<int32_t>();
  Tensor out = Tensor::zeros({static_cast<int64_t>(rows.size()), spec_.vocab_size}, DType::F32);
  const auto all = out.host_mut<float>();
  for (size_t i = 0; i < rows.size(); ++i) {
    const int32_t next = positions[static_cast<size_t>(rows[i])] + 1 - num_prompt_;
    const auto token = static_cast<size_t>(script_.at(static_cast<size_t>(next)));
    all[i * static_cast<size_t>(spec_.vocab_size) + token] = 10.0F;
  }
  return out;
}

}  // namespace mlxcel::engine::testing

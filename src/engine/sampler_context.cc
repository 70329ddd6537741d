#include <cmath>
#include <random>
#include <string>

#include "base/error.h"
#include "engine/sampler.h"

namespace mlxcel::engine {

namespace {

constexpr size_t kMaxBreakers = 256, kMaxBreakerBytes = 256, kMaxTailTokens = 32;

void require(bool ok, const char* name, const std::string& value, const char* range) {
  if (!ok) {
    throw Error(Code::InvalidArgument,
                std::string(name) + " is " + value + " but must be " + range);
  }
}

void require_between(const char* name, float value, float low, float high, const char* range) {
  require(std::isfinite(value) && value >= low && value <= high, name, std::to_string(value),
          range);
}

void require_finite(const char* name, float value) {
  require(std::isfinite(value), name, std::to_string(value), "a finite number");
}

void require_at_least(const char* name, int32_t value, int32_t low, const char* range) {
  require(value >= low, name, std::to_string(value), range);
}

void add_breaker(const text::Tokenizer& tokenizer, const std::string& breaker,
                 SamplerContext& context) {
  for (TokenId id = 0; id < context.vocab_size; ++id) {
    const std::string_view bytes = tokenizer.bytes(id);
    if (bytes.empty()) continue;
    if (bytes.find(breaker) != std::string_view::npos) {
      context.dry_breakers[id].emplace_back();
      continue;
    }
    for (size_t overlap = std::min(bytes.size(), breaker.size() - 1); overlap > 0; --overlap) {
      if (bytes.substr(bytes.size() - overlap) != std::string_view(breaker).substr(0, overlap)) {
        continue;
      }
      std::vector<TokenId> tail =
          tokenizer.encode(std::string_view(breaker).substr(overlap),
                           {.add_special_tokens = false, .parse_special_tokens = false});
      if (tail.size() > kMaxTailTokens) tail.resize(kMaxTailTokens);
      context.dry_breakers[id].push_back(std::move(tail));
    }
  }
}

}  // namespace

SamplerContext make_sampler_context(const text::Tokenizer& tokenizer, const SamplingParams& params,
                                    std::span<const TokenId> eos_ids) {
  SamplerContext context;
  context.vocab_size = tokenizer.vocab_size();
  for (const TokenId id : eos_ids) {
    if (id < 0) {
      throw Error(Code::InvalidArgument, "end-of-text id " + std::to_string(id) + " is negative");
    }
    context.eos_ids.push_back(id);
  }
  if (params.xtc_probability > 0) {
    context.xtc_protected = context.eos_ids;
    const auto newline = tokenizer.encode("\n", {.add_special_tokens = false});
    if (!newline.empty()) context.xtc_protected.push_back(newline.back());
  }
  if (params.dry_multiplier > 0) {
    for (const std::string& breaker : params.dry_sequence_breakers) {
      add_breaker(tokenizer, breaker, context);
    }
  }
  return context;
}

void validate(const SamplingParams& p) {
  constexpr float kHuge = 3.0e38F;
  require_between("temperature", p.temperature, 0, kHuge, "a finite number >= 0");
  require_between("top_p", p.top_p, 0, 1, "between 0 and 1");
  require_between("min_p", p.min_p, 0, 1, "between 0 and 1");
  require_between("typical_p", p.typical_p, 0, 1, "between 0 and 1");
  require_finite("top_n_sigma", p.top_n_sigma);
  require(std::isfinite(p.repetition_penalty) && p.repetition_penalty > 0, "repetition_penalty",
          std::to_string(p.repetition_penalty), "a finite number > 0");
  require_finite("frequency_penalty", p.frequency_penalty);
  require_finite("presence_penalty", p.presence_penalty);
  require_at_least("repeat_last_n", p.repeat_last_n, -1, ">= -1 (-1 = whole history, 0 = off)");
  require_between("dry_multiplier", p.dry_multiplier, 0, kHuge, "a finite number >= 0");
  require_between("dry_base", p.dry_base, 0, kHuge, "a finite number >= 0");
  require_at_least("dry_allowed_length", p.dry_allowed_length, 0, ">= 0");
  require_at_least("dry_penalty_last_n", p.dry_penalty_last_n, -1,
                   ">= -1 (-1 = whole history, 0 = off)");
  require(p.dry_sequence_breakers.size() <= kMaxBreakers, "dry_sequence_breakers",
          std::to_string(p.dry_sequence_breakers.size()) + " strings", "at most 256 strings");
  for (const std::string& breaker : p.dry_sequence_breakers) {
    require(!breaker.empty() && breaker.size() <= kMaxBreakerBytes, "a dry_sequence_breakers entry",
            std::to_string(breaker.size()) + " bytes long", "1 to 256 bytes long");
  }
  require_between("xtc_probability", p.xtc_probability, 0, 1, "between 0 and 1");
  require_between("xtc_threshold", p.xtc_threshold, 0, 1, "between 0 and 1 (above 0.5 = off)");
  require_between("dynatemp_range", p.dynatemp_range, 0, kHuge, "a finite number >= 0");
  require_between("dynatemp_exponent", p.dynatemp_exponent, 0, kHuge, "a finite number >= 0");
  require(p.mirostat >= 0 && p.mirostat <= 2, "mirostat", std::to_string(p.mirostat), "0, 1 or 2");
  require_between("mirostat_tau", p.mirostat_tau, 0, kHuge, "a finite number >= 0");
  require_between("mirostat_eta", p.mirostat_eta, 0, kHuge, "a finite number >= 0");
  require_between("adaptive_target", p.adaptive_target, -kHuge, 1,
                  "between 0 and 1, or negative to switch it off");
  require_between("adaptive_decay", p.adaptive_decay, 0, 1, "between 0 and 1");
  require_at_least("min_keep", p.min_keep, 0, ">= 0");
  require_at_least("num_logprobs", p.num_logprobs, 0, ">= 0");
  for (const auto& [id, bias] : p.logit_bias) {
    require(id >= 0, "a logit_bias token id", std::to_string(id), ">= 0");
    require(!std::isnan(bias), "a logit_bias value", "not a number", "a number, inf or -inf");
  }
}

void init_state(const SamplingParams& params, SamplerState& state) {
  state = {};
  if (params.seed.has_value()) {
    state.seed = *params.seed;
  } else {
    std::random_device device;
    state.seed = uint64_t{device()} << 32 | device();
  }
  state.mirostat_mu = 2 * params.mirostat_tau;
  const float decay = std::min(std::max(params.adaptive_decay, 0.0F), 0.99F);
  state.adaptive_weighted = params.adaptive_target / (1 - decay);
  state.adaptive_total = 1 / (1 - decay);
}

}  // namespace mlxcel::engine

// Sampling: one ordered chain of filters over a row of logits (engine.md section 7).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace mlxcel::engine {

using text::TokenId;

/// Values that switch a filter off are the defaults. See engine.md 7.2 for each formula.
struct SamplingParams {
  float temperature = 0.0F;  // 0 = argmax
  int32_t top_k = 0;         // 0 or negative = off
  float top_p = 1.0F, min_p = 0.0F, typical_p = 1.0F, top_n_sigma = 0.0F;
  bool p_less = false;
  float repetition_penalty = 1.0F, frequency_penalty = 0.0F, presence_penalty = 0.0F;
  int32_t repeat_last_n = -1;  // tokens; -1 = whole history, 0 = off
  float dry_multiplier = 0.0F, dry_base = 1.75F;
  int32_t dry_allowed_length = 2, dry_penalty_last_n = -1;
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  float xtc_probability = 0.0F, xtc_threshold = 0.1F;
  float dynatemp_range = 0.0F, dynatemp_exponent = 1.0F;
  int32_t mirostat = 0;
  float mirostat_tau = 5.0F, mirostat_eta = 0.1F;
  float adaptive_target = -1.0F, adaptive_decay = 0.9F;  // target < 0 = off
  int32_t min_keep = 0;
  std::optional<uint64_t> seed;  // unset: drawn at random when the sequence starts
  bool ignore_eos = false;
  std::vector<std::pair<TokenId, float>> logit_bias;  // -inf forbids
  int32_t num_logprobs = 0;                           // n_probs / top_logprobs
  bool want_logprob = false;                          // log-probability of the sampled token
  bool post_sampling_probs = false;                   // report after the chain instead of before
};

/// Everything about sampling that outlives a step.
struct SamplerState {
  uint64_t seed = 0;
  uint64_t counter =
      0;  // draws made so far: the generator is counter-based (Philox 4x32-10, Salmon et al. 2011)
  float mirostat_mu = 0.0F;
  float adaptive_weighted = 0.0F, adaptive_total = 0.0F;
};

struct SampledToken {
  TokenId id = 0;
  float logprob = 0.0F;                        // when want_logprob
  std::vector<std::pair<TokenId, float>> top;  // num_logprobs best, log-probabilities, descending
};

/// What does not change between the draws of one sequence: vocabulary facts that filters need.
/// Built once.
struct SamplerContext {
  int32_t vocab_size = 0;
  std::vector<TokenId> eos_ids;
  std::vector<TokenId> xtc_protected;  // ids that XTC never removes: end of text and newline
  /// Token sequences that end a DRY match: head token, then one of its tails (empty = head alone).
  std::unordered_map<TokenId, std::vector<std::vector<TokenId>>> dry_breakers;
};
/// Breakers: every token whose bytes contain a breaker string, and every token whose bytes end with
/// a proper prefix of one, followed by the tokens of the rest. Scans the vocabulary only when DRY
/// is on. InvalidArgument for an end-of-text or bias id outside the vocabulary.
SamplerContext make_sampler_context(const text::Tokenizer& tokenizer, const SamplingParams& params,
                                    std::span<const TokenId> eos_ids);

/// Whether sample() does nothing but take the largest logit, reads no history and reports nothing.
bool takes_the_best(const SamplingParams& params);
/// Checks ranges; throws InvalidArgument naming the parameter and the accepted range.
void validate(const SamplingParams& params);
/// The state before the first draw; draws a seed from the system when `params` has none.
void init_state(const SamplingParams& params, SamplerState& state);

/// Draws one token and advances `state`. `logits` [V] is scratch and is overwritten; `history` is
/// prompt plus generated tokens, of which the first `num_prompt` are the prompt (penalties look at
/// both, as llama-server's do); `mask` (ceil(V/32) words, bit set = allowed) may be empty.
/// Log-probabilities are those of the logits as given, or of the final distribution with
/// `post_sampling_probs`, where removed tokens have -inf.
/// Temperature 0 and top_k 1 take the best token, ties to the lowest id. A logit of +inf leaves
/// only the +inf tokens, equally likely. Throws Internal for a NaN logit and InvalidArgument when
/// every token is forbidden. Thread-safe for different states.
SampledToken sample(std::span<float> logits, const SamplingParams& params,
                    const SamplerContext& context, SamplerState& state,
                    std::span<const TokenId> history, int32_t num_prompt,
                    std::span<const uint32_t> mask = {});

}  // namespace mlxcel::engine

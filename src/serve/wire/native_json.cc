#include "serve/wire/native_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "base/utf8.h"
#include "base/version.h"

namespace mlxcel::serve::wire {
namespace {

double per_second(double count, double ms) { return ms > 0 ? count * 1000.0 / ms : 0.0; }

Json bytes_json(std::string_view bytes) {
  Json out = Json::array();
  for (const char c : bytes) out.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  return out;
}

/// JSON has no infinity: a probability of 0 gets the logarithm that llama-server gives it.
double finite_logprob(float logprob) {
  return std::isfinite(logprob) ? static_cast<double>(std::min(logprob, 0.0F)) : -1e30;
}

Json token_json(const text::Tokenizer& tokenizer, text::TokenId id, float logprob,
                bool post_sampling, bool with_ids) {
  Json out = Json::object();
  if (with_ids) out.set("id", id);
  const std::string_view bytes =
      tokenizer.bytes(id).empty() ? tokenizer.token(id) : tokenizer.bytes(id);
  out.set("token", utf8::repair(bytes));
  out.set("bytes", bytes_json(bytes));
  if (post_sampling) {
    out.set("prob", std::exp(static_cast<double>(logprob)));
  } else {
    out.set("logprob", finite_logprob(logprob));
  }
  return out;
}

}  // namespace

Json timings_json(const Choice& c) {
  const int64_t prompt_n = static_cast<int64_t>(c.prompt.size()) - c.num_cached;
  const auto predicted_n = static_cast<int64_t>(c.num_generated);
  // The first token comes out of the prefill.
  const auto steps = static_cast<double>(std::max<int64_t>(predicted_n - 1, 0));
  const auto prompt = static_cast<double>(prompt_n);
  return Json::object({{"cache_n", c.num_cached},
                       {"prompt_n", prompt_n},
                       {"prompt_ms", c.prefill_ms},
                       {"prompt_per_token_ms", prompt_n > 0 ? c.prefill_ms / prompt : 0.0},
                       {"prompt_per_second", per_second(prompt, c.prefill_ms)},
                       {"predicted_n", predicted_n},
                       {"predicted_ms", c.decode_ms},
                       {"predicted_per_token_ms", steps > 0 ? c.decode_ms / steps : 0.0},
                       {"predicted_per_second", per_second(steps, c.decode_ms)}});
}

Json progress_json(const Choice& c) {
  return Json::object({{"total", static_cast<int64_t>(c.prompt.size())},
                       {"cache", c.num_cached},
                       {"processed", c.num_processed},
                       {"time_ms", c.prefill_ms}});
}

Json probabilities_json(const text::Tokenizer& tokenizer, std::span<const TokenProbability> tokens,
                        bool post_sampling, bool with_ids) {
  Json out = Json::array();
  for (const TokenProbability& t : tokens) {
    Json item = token_json(tokenizer, t.id, t.logprob, post_sampling, with_ids);
    Json top = Json::array();
    for (const auto& [id, logprob] : t.top) {
      if (post_sampling && !std::isfinite(logprob)) continue;  // removed by the chain
      top.push_back(token_json(tokenizer, id, logprob, post_sampling, with_ids));
    }
    item.set(post_sampling ? "top_probs" : "top_logprobs", std::move(top));
    out.push_back(std::move(item));
  }
  return out;
}

Json settings_json(const engine::Request& request, bool stream) {
  const engine::SamplingParams& p = request.sampling;
  const auto strings = [](const std::vector<std::string>& list) {
    Json out = Json::array();
    for (const std::string& s : list) out.push_back(s);
    return out;
  };
  Json bias = Json::array();
  const auto add_bias = [&](text::TokenId id, Json value) {
    bias.push_back(Json::object({{"token", id}, {"bias", std::move(value)}}));
  };
  for (const auto& [id, value] : p.logit_bias) add_bias(id, static_cast<double>(value));
  if (p.ignore_eos) {
    for (const text::TokenId id : request.stop_ids) add_bias(id, Json());
  }
  // Reals are stored as floats; nine digits bring back what the client wrote.
  const auto real = [](float v) { return std::stod(fmt::format("{:.7g}", v)); };
  return Json::object({{"n_predict", request.max_tokens},
                       {"seed", static_cast<int64_t>(p.seed.value_or(UINT32_MAX))},
                       {"temperature", real(p.temperature)},
                       {"dynatemp_range", real(p.dynatemp_range)},
                       {"dynatemp_exponent", real(p.dynatemp_exponent)},
                       {"top_k", p.top_k},
                       {"top_p", real(p.top_p)},
                       {"min_p", real(p.min_p)},
                       {"top_n_sigma", real(p.top_n_sigma)},
                       {"xtc_probability", real(p.xtc_probability)},
                       {"xtc_threshold", real(p.xtc_threshold)},
                       {"typical_p", real(p.typical_p)},
                       {"repeat_last_n", p.repeat_last_n},
                       {"repeat_penalty", real(p.repetition_penalty)},
                       {"presence_penalty", real(p.presence_penalty)},
                       {"frequency_penalty", real(p.frequency_penalty)},
                       {"dry_multiplier", real(p.dry_multiplier)},
                       {"dry_base", real(p.dry_base)},
                       {"dry_allowed_length", p.dry_allowed_length},
                       {"dry_penalty_last_n", p.dry_penalty_last_n},
                       {"dry_sequence_breakers", strings(p.dry_sequence_breakers)},
                       {"mirostat", p.mirostat},
                       {"mirostat_tau", real(p.mirostat_tau)},
                       {"mirostat_eta", real(p.mirostat_eta)},
                       {"stop", strings(request.stop_strings)},
                       {"max_tokens", request.max_tokens},
                       {"n_keep", 0},
                       {"n_discard", 0},
                       {"ignore_eos", p.ignore_eos},
                       {"stream", stream},
                       {"logit_bias", std::move(bias)},
                       {"n_probs", p.num_logprobs},
                       {"min_keep", p.min_keep},
                       {"grammar", ""},
                       {"samplers", strings({"penalties", "dry", "top_n_sigma", "top_k", "typ_p",
                                             "top_p", "min_p", "xtc", "temperature"})},
                       {"speculative.n_max", 0},
                       {"speculative.n_min", 0},
                       {"speculative.p_min", 0.0},
                       {"post_sampling_probs", p.post_sampling_probs},
                       {"lora", Json::array()}});
}

std::string token_text(const text::Tokenizer& tokenizer, text::TokenId id) {
  return utf8::repair(tokenizer.bytes(id));
}

std::string_view finish_reason(const Choice& choice) {
  return choice.stop == StopType::Limit ? "length" : "stop";
}

Json usage_json(const std::vector<Choice>& choices, size_t choices_per_prompt) {
  int64_t prompt = 0;
  int64_t cached = 0;
  int64_t completion = 0;
  for (const Choice& c : choices) {
    completion += c.num_generated;
    if (c.index % std::max<size_t>(choices_per_prompt, 1) != 0) continue;
    prompt += static_cast<int64_t>(c.prompt.size());
    cached += c.num_cached;
  }
  return Json::object({{"prompt_tokens", prompt},
                       {"completion_tokens", completion},
                       {"total_tokens", prompt + completion},
                       {"prompt_tokens_details", Json::object({{"cached_tokens", cached}})}});
}

std::string chunk_head(const Json& chunk) {
  std::string head = chunk.dump();
  MLXCEL_CHECK(head.ends_with("[]}"), "the choices are not the last member of the chunk");
  head.resize(head.size() - 3);
  return head;
}

std::string chunk_text(const std::string& head, const Json& choices, const Choice* timed) {
  std::string out = head + choices.dump();
  if (timed != nullptr) out += ",\"timings\":" + timings_json(*timed).dump();
  out += '}';
  return out;
}

std::string system_fingerprint() { return fmt::format("b{}", version()); }

std::string random_id(std::string_view prefix) {
  static constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  thread_local std::mt19937_64 generator{(uint64_t{std::random_device{}()} << 32) |
                                         std::random_device{}()};
  std::uniform_int_distribution<size_t> letter(0, kLetters.size() - 1);
  std::string id(prefix);
  for (int i = 0; i < 24; ++i) id += kLetters[letter(generator)];
  return id;
}

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace mlxcel::serve::wire

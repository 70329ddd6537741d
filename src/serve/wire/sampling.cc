#include "serve/wire/sampling.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "serve/wire/api_error.h"

namespace mlxcel::serve::wire {
namespace {

using engine::SamplingParams;
using text::TokenId;

constexpr double kMaxReal = 3e38;
constexpr float kForbidden = -std::numeric_limits<float>::infinity();
constexpr size_t kMaxStops = 64;
constexpr size_t kMaxStopBytes = 4096;

/// The fixed order of the chain, with the names that requests use.
struct Sampler {
  std::string_view name, other_name;
  void (*switch_off)(SamplingParams&);
};
constexpr std::array<Sampler, 9> kChain = {{
    {"penalties", "penalties",
     [](SamplingParams& p) {
       p.repetition_penalty = 1;
       p.frequency_penalty = p.presence_penalty = 0;
     }},
    {"dry", "dry", [](SamplingParams& p) { p.dry_multiplier = 0; }},
    {"top_n_sigma", "top_n_sigma", [](SamplingParams& p) { p.top_n_sigma = 0; }},
    {"top_k", "top_k", [](SamplingParams& p) { p.top_k = 0; }},
    {"typ_p", "typical_p", [](SamplingParams& p) { p.typical_p = 1; }},
    {"top_p", "top_p", [](SamplingParams& p) { p.top_p = 1; }},
    {"min_p", "min_p", [](SamplingParams& p) { p.min_p = 0; }},
    {"xtc", "xtc", [](SamplingParams& p) { p.xtc_probability = 0; }},
    {"temperature", "temp",
     [](SamplingParams& p) {
       if (p.temperature > 0) p.temperature = 1;
       p.dynatemp_range = 0;
     }},
}};

void read_samplers(Fields& f, SamplingParams& p) {
  const Json* list = f.get("samplers");
  if (list == nullptr || !f.ok()) return;
  if (!list->is_array()) return f.fail("samplers", "expected a list of names");
  std::array<bool, kChain.size()> listed{};
  size_t next = 0;
  for (const Json& item : list->as_array()) {
    if (!item.is_string()) return f.fail("samplers", "expected a list of names");
    const std::string& name = item.as_string();
    const auto at = std::ranges::find_if(
        kChain, [&](const Sampler& s) { return s.name == name || s.other_name == name; });
    if (at == kChain.end()) {
      return f.fail("samplers", fmt::format("'{}' is no sampler", name.substr(0, 64)));
    }
    const auto index = static_cast<size_t>(at - kChain.begin());
    if (index < next) {
      return f.fail("samplers",
                    fmt::format("'{}' cannot come after '{}': the order of the chain is fixed",
                                name, kChain[next - 1].name));
    }
    listed[index] = true;
    next = index + 1;
  }
  for (size_t i = 0; i < kChain.size(); ++i) {
    if (!listed[i]) kChain[i].switch_off(p);
  }
}

void read_penalties(Fields& f, SamplingParams& p) {
  f.number(f.first_of({"repeat_penalty", "repetition_penalty"}), p.repetition_penalty, 1e-6,
           kMaxReal);
  f.integer("repeat_last_n", p.repeat_last_n, -1);
  f.number("presence_penalty", p.presence_penalty, -kMaxReal, kMaxReal);
  f.number("frequency_penalty", p.frequency_penalty, -kMaxReal, kMaxReal);
  f.number("dry_multiplier", p.dry_multiplier, 0, kMaxReal);
  float dry_base = p.dry_base;
  f.number("dry_base", dry_base, -kMaxReal, kMaxReal);
  if (dry_base >= 1) p.dry_base = dry_base;  // llama-server ignores smaller ones
  f.integer("dry_allowed_length", p.dry_allowed_length, 0);
  f.integer("dry_penalty_last_n", p.dry_penalty_last_n, -1);
  f.strings("dry_sequence_breakers", p.dry_sequence_breakers);
}

void read_seed(Fields& f, SamplingParams& p) {
  const Json* value = f.get("seed");
  if (value == nullptr || !f.ok()) return;
  if (value->is_number() && !value->is_int()) {
    const double real = value->as_double();
    if (real == 18446744073709551615.0) {  // 2^64 - 1 as a double: "random" of unsigned clients
      p.seed.reset();
      return;
    }
  }
  int64_t seed = -1;
  f.integer64("seed", seed);
  if (!f.ok()) return;
  if (seed == -1 || seed == int64_t{UINT32_MAX}) {
    p.seed.reset();  // as llama-server spells "random"
  } else if (seed >= 0 && seed < int64_t{UINT32_MAX}) {
    p.seed = static_cast<uint32_t>(seed);
  } else {
    f.fail("seed", "expected -1 or 0 to 4294967295");
  }
}

/// "15043" as a token id.
std::optional<int64_t> id_in(const std::string& text) {
  int64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return id;
}

void add_bias(Fields& f, const text::Tokenizer& tokenizer, const Json& token, const Json& bias,
              bool keys_are_ids, SamplingParams& p) {
  float value = kForbidden;
  if (bias.is_number()) {
    const double real = bias.as_double();
    if (!(real >= -kMaxReal && real <= kMaxReal)) {
      return f.fail("logit_bias", "a bias is out of range");
    }
    value = static_cast<float>(real);
  } else if (!(bias.is_bool() && !bias.as_bool())) {
    return f.fail("logit_bias", "expected a number or false for each token");
  }
  std::vector<TokenId> ids;
  std::optional<int64_t> id;
  if (token.is_int()) id = token.as_int();
  if (token.is_string() && keys_are_ids) id = id_in(token.as_string());
  if (id) {
    if (*id < 0 || *id >= tokenizer.vocab_size()) {
      return f.fail("logit_bias", fmt::format("token {} is outside the vocabulary of {} tokens",
                                              *id, tokenizer.vocab_size()));
    }
    ids.push_back(static_cast<TokenId>(*id));
  } else if (token.is_string()) {
    ids = tokenizer.encode(token.as_string(), {.add_special_tokens = false});
  } else {
    return f.fail("logit_bias", "expected a token id or a text for each bias");
  }
  for (const TokenId i : ids) {
    const auto known = std::ranges::find(p.logit_bias, i, [](const auto& b) { return b.first; });
    if (known != p.logit_bias.end()) {
      known->second = value;
    } else {
      p.logit_bias.emplace_back(i, value);
    }
  }
}

}  // namespace

void read_logit_bias(Fields& f, const text::Tokenizer& tokenizer, SamplingParams& p) {
  const Json* bias = f.get("logit_bias");
  if (bias == nullptr || !f.ok()) return;
  p.logit_bias.clear();
  if (bias->is_object()) {
    for (const auto& [key, value] : bias->as_object()) {
      add_bias(f, tokenizer, Json(key), value, true, p);
    }
    return;
  }
  if (!bias->is_array()) return f.fail("logit_bias", "expected an object or a list of pairs");
  for (const Json& pair : bias->as_array()) {
    if (!pair.is_array() || pair.size() != 2) {
      return f.fail("logit_bias", "expected pairs [token, bias]");
    }
    add_bias(f, tokenizer, pair.as_array()[0], pair.as_array()[1], false, p);
  }
}

void read_stop(Fields& f, std::string_view key, std::vector<std::string>& stop) {
  f.strings(key, stop);
  if (!f.ok()) return;
  std::erase_if(stop, [](const std::string& s) { return s.empty(); });
  if (stop.size() > kMaxStops) {
    return f.fail(key, fmt::format("{} strings, at most {} are allowed", stop.size(), kMaxStops));
  }
  for (const std::string& s : stop) {
    if (s.size() > kMaxStopBytes) {
      return f.fail(key, fmt::format("a string of {} bytes, at most {} are allowed", s.size(),
                                     kMaxStopBytes));
    }
  }
}

void read_max_tokens(Fields& f, int32_t default_tokens, bool default_is_cap, int32_t& out) {
  out = default_tokens;
  f.integer(f.first_of({"n_predict", "max_completion_tokens", "max_tokens"}), out, -1);
  if (default_is_cap && default_tokens >= 0 && (out < 0 || out > default_tokens)) {
    out = default_tokens;
  }
}

void read_sampling(Fields& f, const text::Tokenizer& tokenizer, SamplingParams& p) {
  f.number("temperature", p.temperature, -kMaxReal, kMaxReal);
  p.temperature = std::max(p.temperature, 0.0F);  // as llama-server: no heat is greedy
  f.number("dynatemp_range", p.dynatemp_range, 0, kMaxReal);
  f.number("dynatemp_exponent", p.dynatemp_exponent, 0, kMaxReal);
  f.integer("top_k", p.top_k);
  f.number("top_p", p.top_p, 0, 1);
  f.number("min_p", p.min_p, 0, 1);
  f.number("typical_p", p.typical_p, 0, 1);
  f.number("top_n_sigma", p.top_n_sigma, -kMaxReal, kMaxReal);
  f.number("xtc_probability", p.xtc_probability, 0, 1);
  f.number("xtc_threshold", p.xtc_threshold, 0, 1);
  f.integer("mirostat", p.mirostat, 0, 2);
  f.number("mirostat_tau", p.mirostat_tau, 0, kMaxReal);
  f.number("mirostat_eta", p.mirostat_eta, 0, kMaxReal);
  f.number("adaptive_target", p.adaptive_target, -kMaxReal, 1);
  f.number("adaptive_decay", p.adaptive_decay, 0, 1);
  f.integer("min_keep", p.min_keep, 0);
  f.boolean("ignore_eos", p.ignore_eos);
  read_penalties(f, p);
  read_seed(f, p);
  read_samplers(f, p);
  read_logit_bias(f, tokenizer, p);
}

namespace {

std::shared_ptr<const text::Grammar> taken(Fields& f, std::string_view key,
                                           Result<std::shared_ptr<const text::Grammar>> grammar) {
  if (grammar.ok()) return grammar.value();
  // Whatever is wrong with a grammar, its sender can put right.
  f.fail(Error(Code::InvalidArgument, grammar.error().message())
             .within(fmt::format("'{}'", f.name(key))));
  return nullptr;
}

}  // namespace

std::shared_ptr<const text::Grammar> read_grammar(Fields& f, text::GrammarCache& grammars,
                                                  std::shared_ptr<const text::Grammar> fallback) {
  std::string grammar;
  f.string("grammar", grammar);
  const Json* schema = f.get("json_schema");
  const Json* format = f.object("response_format");
  if (!f.ok()) return nullptr;
  if (!grammar.empty() && schema != nullptr) {
    f.fail("json_schema", "excludes 'grammar'");
    return nullptr;
  }
  if (!grammar.empty()) return taken(f, "grammar", grammars.gbnf(grammar));
  if (schema != nullptr) return taken(f, "json_schema", grammars.json_schema(*schema));
  if (format == nullptr) return fallback;
  Fields inner(*format, f.name("response_format") + ".");
  std::string type = "text";
  inner.choice("type", type, {"text", "json_object", "json_schema"});
  const Json* found = nullptr;
  if (type == "json_object") {
    found = inner.get("schema");
  } else if (type == "json_schema") {
    const Json* wrapper = inner.object("json_schema");
    if (inner.ok() && (wrapper == nullptr || wrapper->find("schema") == nullptr)) {
      inner.fail("json_schema", "expected an object with 'schema'");
    } else if (inner.ok()) {
      found = wrapper->find("schema");
    }
  }
  if (!inner.ok()) {
    f.fail(inner.error());
    return nullptr;
  }
  if (type == "text") return nullptr;
  static const Json any_object = Json::object();
  return taken(f, "response_format", grammars.json_schema(found != nullptr ? *found : any_object));
}

void read_extensions(Fields& f) {
  if (!f.ok()) return;
  const Json* lora = f.array("lora");
  if (f.ok() && lora != nullptr && lora->size() > 0) {
    f.fail(unsupported_field(f.name("lora"), "no adapter is loaded"));
  }
}

}  // namespace mlxcel::serve::wire

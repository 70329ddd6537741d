// Reading of rotary settings; the keys and their precedence follow transformers 5.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "nn/rope.h"

namespace mlxcel::nn {
namespace {

struct Section {
  std::string key;  // "rope_scaling" or "rope_parameters.full_attention", for messages
  io::Config values;
};

bool has_entries(const io::Config& c, std::string_view key) {
  return c.has(key) && (!c.at(key).json().is_object() || c.at(key).json().size() > 0);
}

/// The object that holds the rotary settings of one layer type.
Section rope_section(const io::Config& c, std::string_view layer_type, bool flat_settings) {
  // A non-empty rope_scaling wins over rope_parameters.
  Section s;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (has_entries(c, key)) {
      s = {key, c.at(key)};
      break;
    }
  }
  const Section nothing = {"rope_parameters", io::Config::from_json(Json::object(), c.source())};
  if (s.key.empty()) return nothing;
  const auto& members = s.values.json().as_object();
  const bool nested = std::any_of(members.begin(), members.end(),
                                  [](const Json::Member& m) { return m.second.is_object(); });
  if (!nested) return flat_settings ? s : nothing;
  if (!s.values.has(layer_type)) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {} has settings by layer type but none for \"{}\"", c.source(),
                            s.key, layer_type.empty() ? "full_attention" : layer_type));
  }
  s.values = s.values.at(layer_type);
  s.key += fmt::format(".{}", layer_type);
  return s;
}

RopeConfig::Type parse_type(const Section& s) {
  const char* key = s.values.has("rope_type") ? "rope_type" : "type";
  const std::string name = s.values.str_or(key, "default");
  if (name == "default") return RopeConfig::Type::Default;
  if (name == "linear") return RopeConfig::Type::Linear;
  if (name == "dynamic") return RopeConfig::Type::Dynamic;
  if (name == "llama3") return RopeConfig::Type::Llama3;
  if (name == "yarn") return RopeConfig::Type::Yarn;
  if (name == "longrope" || name == "su") return RopeConfig::Type::LongRope;
  if (name == "proportional") return RopeConfig::Type::Proportional;
  throw Error(Code::Unsupported,
              fmt::format("{}: {}.{} = \"{}\" is not supported (known: default, linear, dynamic, "
                          "llama3, yarn, longrope, proportional)",
                          s.values.source(), s.key, key, name));
}

double positive(const Section& s, const char* key, double value) {
  if (!(value > 0.0) || !std::isfinite(value)) {
    throw Error(Code::InvalidArgument, fmt::format("{}: {}.{} = {} must be a positive number",
                                                   s.values.source(), s.key, key, value));
  }
  return value;
}

/// An absent, null or zero entry gives the fallback, as in the reference.
double nonzero_or(const Section& s, const char* key, double fallback) {
  const double value = s.values.f64_or(key, 0.0);
  return value == 0.0 ? fallback : positive(s, key, value);
}

/// 0.1 m ln(s) + 1, the temperature of YaRN section 3.4.
double yarn_mscale(double factor, double m) {
  return factor <= 1.0 ? 1.0 : 0.1 * m * std::log(factor) + 1.0;
}

void read_yarn(const Section& s, RopeConfig& r) {
  r.factor = s.values.has("factor") ? positive(s, "factor", s.values.f64("factor"))
                                    : static_cast<double>(r.max_positions) /
                                          static_cast<double>(r.original_max_positions);
  r.beta_fast = nonzero_or(s, "beta_fast", 32.0);
  r.beta_slow = nonzero_or(s, "beta_slow", 1.0);
  r.truncate = s.values.flag_or("truncate", true);
  const double mscale = s.values.f64_or("mscale", 0.0);
  const double mscale_all_dim = s.values.f64_or("mscale_all_dim", 0.0);
  double factor = yarn_mscale(r.factor, 1.0);
  if (mscale != 0.0 && mscale_all_dim != 0.0) {
    factor = yarn_mscale(r.factor, mscale) / yarn_mscale(r.factor, mscale_all_dim);
  }
  if (s.values.has("attention_factor")) factor = s.values.f64("attention_factor");
  r.attention_factor = static_cast<float>(positive(s, "attention_factor", factor));
}

std::vector<float> divisors(const Section& s, const char* key, int64_t count) {
  std::vector<float> out;
  if (!s.values.has(key)) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {}.{} is missing", s.values.source(), s.key, key));
  }
  for (const Json& value : s.values.json().find(key)->as_array()) {
    out.push_back(static_cast<float>(positive(s, key, value.as_double())));
  }
  if (static_cast<int64_t>(out.size()) != count) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {}.{} has {} entries, expected {}", s.values.source(), s.key, key,
                            out.size(), count));
  }
  return out;
}

void read_longrope(const Section& s, RopeConfig& r) {
  r.short_factors = divisors(s, "short_factor", r.rotary_dim / 2);
  r.long_factors = divisors(s, "long_factor", r.rotary_dim / 2);
  const auto original = static_cast<double>(r.original_max_positions);
  const double factor = nonzero_or(s, "factor", static_cast<double>(r.max_positions) / original);
  double attention = factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(original));
  attention = nonzero_or(s, "attention_factor", attention);
  r.attention_factor = static_cast<float>(nonzero_or(s, "short_mscale", attention));
  r.long_attention_factor = static_cast<float>(nonzero_or(s, "long_mscale", attention));
}

void read_scaling(const io::Config& c, const Section& s, RopeConfig& r) {
  if (r.type == RopeConfig::Type::Llama3 || r.type == RopeConfig::Type::Yarn ||
      r.type == RopeConfig::Type::LongRope) {
    constexpr const char* kOriginal = "original_max_position_embeddings";
    const int64_t inside = s.values.size_or(kOriginal, r.max_positions);
    r.original_max_positions = c.size_or(kOriginal, inside);
  }
  if (r.type == RopeConfig::Type::Yarn) return read_yarn(s, r);
  if (r.type == RopeConfig::Type::LongRope) return read_longrope(s, r);
  if (r.type == RopeConfig::Type::Proportional) {
    r.factor = nonzero_or(s, "factor", 1.0);
    return;
  }
  r.factor = positive(s, "factor", s.values.f64("factor"));
  if (r.type == RopeConfig::Type::Dynamic) {
    if (s.values.has("alpha")) {
      throw Error(Code::Unsupported, fmt::format("{}: {}.alpha = {} is not supported", c.source(),
                                                 s.key, s.values.json().find("alpha")->dump()));
    }
    if (r.factor < 1.0 || r.rotary_dim <= 2) {
      throw Error(
          Code::InvalidArgument,
          fmt::format("{}: {}: dynamic scaling needs a factor of at least 1 and more than 2 "
                      "rotated elements, found {} and {}",
                      c.source(), s.key, r.factor, r.rotary_dim));
    }
  }
  if (r.type == RopeConfig::Type::Llama3) {
    r.low_freq_factor = positive(s, "low_freq_factor", s.values.f64("low_freq_factor"));
    r.high_freq_factor = positive(s, "high_freq_factor", s.values.f64("high_freq_factor"));
    if (r.high_freq_factor <= r.low_freq_factor) {
      throw Error(Code::InvalidArgument,
                  fmt::format("{}: {}.high_freq_factor = {} must be above low_freq_factor = {}",
                              c.source(), s.key, r.high_freq_factor, r.low_freq_factor));
    }
  }
}

void fix_alpha(const Section& s, RopeConfig& r) {
  const double alpha = positive(s, "alpha", s.values.f64("alpha"));
  const auto dim = static_cast<double>(r.rotary_dim);
  if (r.rotary_dim <= 2) {
    throw Error(
        Code::InvalidArgument,
        fmt::format("{}: {}.alpha needs more than 2 rotated elements", s.values.source(), s.key));
  }
  r.theta *= std::pow(alpha, dim / (dim - 2.0));
  r.type = RopeConfig::Type::Default;
}

void read_factors(const io::Config& c, RopeConfig& r) {
  if (!c.has("rope_freq_factors")) return;
  const auto& list = c.json().find("rope_freq_factors")->as_array();
  if (static_cast<int64_t>(list.size()) != r.rotary_dim / 2) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: rope_freq_factors has {} entries, expected {}", c.source(),
                            list.size(), r.rotary_dim / 2));
  }
  for (const Json& factor : list) r.freq_factors.push_back(static_cast<float>(factor.as_double()));
}

}  // namespace

RopeConfig RopeConfig::from(const io::Config& c, int64_t head_dim, int64_t max_positions,
                            std::string_view layer_type, const Defaults& defaults) {
  const Section s = rope_section(c, layer_type, defaults.flat_settings);
  RopeConfig r;
  r.max_positions = max_positions;
  r.interleaved = defaults.interleaved;
  r.type = parse_type(s);
  // The top-level keys are read even when the section decides, so that they do not count as unread.
  const double top_theta = c.f64_or(defaults.theta_key, defaults.theta);
  r.theta = positive(s, "rope_theta", s.values.f64_or("rope_theta", top_theta));
  const double top_partial = c.f64_or(defaults.partial_key, defaults.partial_rotary_factor);
  const double partial =
      positive(s, "partial_rotary_factor", s.values.f64_or("partial_rotary_factor", top_partial));
  r.rotary_dim = static_cast<int64_t>(static_cast<double>(head_dim) * std::min(partial, 2.0));
  if (r.type == Type::Proportional) {
    // The share is of the pairs, which keep their places and frequencies in the whole head.
    r.moving = std::min(r.rotary_dim / 2, head_dim / 2);
    r.rotary_dim = head_dim;
  }
  if (r.rotary_dim < 2 || r.rotary_dim % 2 != 0 || r.rotary_dim > head_dim) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: head_dim {} and partial_rotary_factor {} rotate {} elements; an "
                            "even number of at least 2 is needed",
                            c.source(), head_dim, partial, r.rotary_dim));
  }
  if (r.type == Type::Dynamic && defaults.fixed_alpha && s.values.has("alpha")) {
    fix_alpha(s, r);
  } else if (r.type != Type::Default) {
    read_scaling(c, s, r);
  }
  read_factors(c, r);
  return r;
}

int64_t RopeConfig::usable_positions() const {
  double length = 0.0;
  if (type == Type::Dynamic) length = static_cast<double>(max_positions) * factor;
  if (type == Type::Yarn) length = static_cast<double>(original_max_positions) * factor;
  constexpr double kMost = 1 << 30;
  return std::max(max_positions, static_cast<int64_t>(std::min(length, kMost)));
}

}  // namespace mlxcel::nn

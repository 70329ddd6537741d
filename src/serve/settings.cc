#include "serve/settings.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <span>

#include "base/sha256.h"

namespace mlxcel::serve {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();

Error wrong(std::string_view expected, const Json& value) {
  return {Code::InvalidArgument,
          fmt::format("expected {}, found {}", expected, Json::kind_name(value.kind()))};
}

float number(const Json& v) {
  if (!v.is_number()) throw wrong("a number", v);
  const double d = v.as_double();
  if (!std::isfinite(d) || std::abs(d) > 1e30) {
    throw Error(Code::InvalidArgument, "the number is too large");
  }
  return static_cast<float>(d);
}

int32_t integer(const Json& v) {
  if (!v.is_int()) throw wrong("a whole number", v);
  if (v.as_int() < -kMaxInt || v.as_int() > kMaxInt) {
    throw Error(Code::InvalidArgument, "the number is too large");
  }
  return static_cast<int32_t>(v.as_int());
}

using Defaults = RequestDefaults;

struct Setting {
  const char* name;
  const char* kind;
  const char* help;
  Json (*get)(const Defaults&);
  void (*set)(Defaults&, const Json&);
};

#define MLXCEL_REAL_SETTING(name, member, help)                                             \
  Setting {                                                                                 \
    name, "float", help, [](const Defaults& d) { return Json(double{d.sampling.member}); }, \
        [](Defaults& d, const Json& v) { d.sampling.member = number(v); }                   \
  }
#define MLXCEL_INT_SETTING(name, member, help)                                    \
  Setting {                                                                       \
    name, "int", help, [](const Defaults& d) { return Json(d.sampling.member); }, \
        [](Defaults& d, const Json& v) { d.sampling.member = integer(v); }        \
  }

void set_breakers(Defaults& d, const Json& v) {
  if (!v.is_array()) throw wrong("a list of strings", v);
  std::vector<std::string> breakers;
  for (const Json& text : v.as_array()) {
    if (!text.is_string()) throw wrong("a list of strings", text);
    breakers.push_back(text.as_string());
  }
  d.sampling.dry_sequence_breakers = std::move(breakers);
}

Json get_breakers(const Defaults& d) {
  Json list = Json::array();
  for (const std::string& text : d.sampling.dry_sequence_breakers) list.push_back(text);
  return list;
}

void set_seed(Defaults& d, const Json& v) {
  if (!v.is_null() && (!v.is_int() || v.as_int() < -1 || v.as_int() > 4294967295)) {
    throw Error(Code::InvalidArgument, "expected null, -1 or a whole number up to 4294967295");
  }
  d.sampling.seed.reset();
  if (v.is_int() && v.as_int() >= 0) d.sampling.seed = static_cast<uint64_t>(v.as_int());
}

void set_max_tokens(Defaults& d, const Json& v) {
  const int32_t n = integer(v);
  if (n < -1) throw Error(Code::InvalidArgument, "expected -1 or a count");
  d.max_tokens = n;
  d.max_tokens_is_cap = n >= 0;
}

void set_budget(Defaults& d, const Json& v) {
  const int32_t n = v.is_null() ? -1 : integer(v);
  if (n < -1) throw Error(Code::InvalidArgument, "expected null, -1 or a count");
  d.reasoning_budget.reset();
  if (n >= 0) d.reasoning_budget = n;
}

void set_kwargs(Defaults& d, const Json& v) {
  if (!v.is_object()) throw wrong("an object", v);
  d.chat_template_kwargs = v;
}

constexpr Setting kSettings[] = {
    MLXCEL_REAL_SETTING("default_temperature", temperature, "0 = always the most likely token"),
    MLXCEL_INT_SETTING("default_top_k", top_k, "0 = off"),
    MLXCEL_REAL_SETTING("default_top_p", top_p, "1 = off"),
    MLXCEL_REAL_SETTING("default_min_p", min_p, "0 = off"),
    MLXCEL_REAL_SETTING("default_typical_p", typical_p, "1 = off"),
    MLXCEL_REAL_SETTING("default_top_n_sigma", top_n_sigma, "0 = off"),
    MLXCEL_REAL_SETTING("default_repetition_penalty", repetition_penalty, "1 = off"),
    MLXCEL_REAL_SETTING("default_presence_penalty", presence_penalty, "0 = off"),
    MLXCEL_REAL_SETTING("default_frequency_penalty", frequency_penalty, "0 = off"),
    MLXCEL_INT_SETTING("default_repeat_last_n", repeat_last_n, "tokens; -1 = everything"),
    MLXCEL_REAL_SETTING("default_dry_multiplier", dry_multiplier, "0 = off"),
    MLXCEL_REAL_SETTING("default_dry_base", dry_base, "exponential base of DRY"),
    MLXCEL_INT_SETTING("default_dry_allowed_length", dry_allowed_length, "tokens"),
    MLXCEL_INT_SETTING("default_dry_penalty_last_n", dry_penalty_last_n, "tokens; 0 = off"),
    {"default_dry_sequence_breakers", "array", "strings that end a match", get_breakers,
     set_breakers},
    MLXCEL_REAL_SETTING("default_xtc_probability", xtc_probability, "0 = off"),
    MLXCEL_REAL_SETTING("default_xtc_threshold", xtc_threshold, "from which XTC excludes"),
    MLXCEL_REAL_SETTING("default_dynatemp_range", dynatemp_range, "0 = off"),
    MLXCEL_REAL_SETTING("default_dynatemp_exponent", dynatemp_exponent, "of the range"),
    MLXCEL_INT_SETTING("default_mirostat", mirostat, "0 = off, 1 or 2"),
    MLXCEL_REAL_SETTING("default_mirostat_tau", mirostat_tau, "target entropy"),
    MLXCEL_REAL_SETTING("default_mirostat_eta", mirostat_eta, "learning rate"),
    {"default_seed", "int_or_null", "null = random",
     [](const Defaults& d) {
       return d.sampling.seed ? Json(static_cast<int64_t>(*d.sampling.seed)) : Json();
     },
     set_seed},
    {"default_max_tokens", "int", "-1 = until the context is full",
     [](const Defaults& d) { return Json(d.max_tokens); }, set_max_tokens},
    {"default_reasoning_budget", "int_or_null", "thinking tokens; null = no limit",
     [](const Defaults& d) { return d.reasoning_budget ? Json(*d.reasoning_budget) : Json(); },
     set_budget},
    {"default_chat_template_kwargs", "object", "variables of the chat template",
     [](const Defaults& d) { return d.chat_template_kwargs; }, set_kwargs},
};

#undef MLXCEL_REAL_SETTING
#undef MLXCEL_INT_SETTING

const Setting* find_setting(std::string_view name) {
  for (const Setting& setting : kSettings) {
    if (setting.name == name) return &setting;
  }
  return nullptr;
}

Json current_json(const Defaults& defaults, const Json& fixed) {
  Json out = Json::object();
  for (const Setting& setting : kSettings) out.set(setting.name, setting.get(defaults));
  for (const auto& [name, value] : fixed.as_object()) out.set(name, value);
  return out;
}

std::string fingerprint(const Json& current) {
  const Digest256 digest = sha256(current.dump());
  return hex(std::span(digest).first(8));
}

/// Why `name` cannot become `value`; empty when it has.
std::string apply(Defaults& defaults, const Json& fixed, const std::string& name,
                  const Json& value) {
  const Setting* setting = find_setting(name);
  if (setting == nullptr) {
    return fixed.find(name) != nullptr ? "it is decided when the server starts"
                                       : "there is no such setting";
  }
  Defaults trial = defaults;
  try {
    setting->set(trial, value);
    engine::validate(trial.sampling);
  } catch (const Error& e) {
    return e.message();
  }
  defaults = std::move(trial);
  return {};
}

}  // namespace

SettingsStore::SettingsStore(RequestDefaults defaults, Json fixed)
    : initial_(defaults),
      fixed_(std::move(fixed)),
      current_(std::make_shared<const RequestDefaults>(std::move(defaults))) {}

std::shared_ptr<const RequestDefaults> SettingsStore::get() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

Json SettingsStore::json() const {
  Json schema = Json::object();
  for (const Setting& setting : kSettings) {
    schema.set(setting.name,
               Json::object({{"kind", setting.kind}, {"mutable", true}, {"help", setting.help}}));
  }
  for (const auto& [name, value] : fixed_.as_object()) {
    schema.set(name, Json::object({{"kind", Json::kind_name(value.kind())},
                                   {"mutable", false},
                                   {"reason", "decided when the server starts"}}));
  }
  Json current = current_json(*get(), fixed_);
  std::string print = fingerprint(current);
  return Json::object({{"schema", std::move(schema)},
                       {"current", std::move(current)},
                       {"fingerprint", std::move(print)}});
}

Result<Json> SettingsStore::patch(const Json& body) {
  if (!body.is_object()) return Error(Code::InvalidArgument, "the body must be a JSON object");
  const Json* named = body.find("settings");
  const Json* mode = named == nullptr ? nullptr : body.find("mode");
  const Json& wanted = named == nullptr ? body : *named;
  if (!wanted.is_object()) return Error(Code::InvalidArgument, "\"settings\" must be an object");
  const bool replace = mode != nullptr && mode->is_string() && mode->as_string() == "replace";
  if (mode != nullptr && !replace && !(mode->is_string() && mode->as_string() == "merge")) {
    return Error(Code::InvalidArgument, "\"mode\" must be \"merge\" or \"replace\"");
  }
  const std::lock_guard lock(mutex_);
  RequestDefaults next = replace ? initial_ : *current_;
  Json applied = Json::object();
  Json rejected = Json::array();
  for (const auto& [name, value] : wanted.as_object()) {
    std::string reason = apply(next, fixed_, name, value);
    if (reason.empty()) {
      applied.set(name, find_setting(name)->get(next));
    } else {
      rejected.push_back(Json::object({{"name", name}, {"reason", std::move(reason)}}));
    }
  }
  Json current = current_json(next, fixed_);
  current_ = std::make_shared<const RequestDefaults>(std::move(next));
  std::string print = fingerprint(current);
  return Json::object({{"applied", std::move(applied)},
                       {"rejected", std::move(rejected)},
                       {"current", std::move(current)},
                       {"fingerprint", std::move(print)}});
}

}  // namespace mlxcel::serve

#include "apps/model_arguments.h"

#include <string_view>
#include <vector>

namespace mlxcel::apps {
namespace {

/// The strings of a comma-separated list; \n, \t, \r and \\ stand for those characters, "none" for
/// an empty list.
std::vector<std::string> split_breakers(std::string_view list) {
  std::vector<std::string> out;
  if (list == "none") return out;
  std::string current;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || list[i] == ',') {
      if (!current.empty()) out.push_back(std::move(current));
      current.clear();
    } else if (list[i] == '\\' && i + 1 < list.size() &&
               std::string_view("ntr\\").find(list[i + 1]) != std::string_view::npos) {
      const char c = list[++i];
      current += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : '\\';
    } else {
      current += list[i];
    }
  }
  return out;
}

}  // namespace

engine::SamplingParams SamplingFlags::over(engine::SamplingParams p) const {
  const auto put = [](auto& target, const auto& flag) {
    if (flag) target = *flag;
  };
  put(p.temperature, temperature);
  put(p.top_k, top_k);
  put(p.top_p, top_p);
  put(p.min_p, min_p);
  put(p.typical_p, typical_p);
  put(p.top_n_sigma, top_n_sigma);
  put(p.repetition_penalty, repetition_penalty);
  put(p.frequency_penalty, frequency_penalty);
  put(p.presence_penalty, presence_penalty);
  put(p.repeat_last_n, repeat_last_n);
  put(p.dry_multiplier, dry_multiplier);
  put(p.dry_base, dry_base);
  put(p.dry_allowed_length, dry_allowed_length);
  put(p.dry_penalty_last_n, dry_penalty_last_n);
  put(p.xtc_probability, xtc_probability);
  put(p.xtc_threshold, xtc_threshold);
  put(p.mirostat, mirostat);
  put(p.mirostat_eta, mirostat_lr);
  put(p.mirostat_tau, mirostat_ent);
  put(p.dynatemp_range, dynatemp_range);
  put(p.dynatemp_exponent, dynatemp_exp);
  if (p_less) p.p_less = true;
  if (seed && *seed >= 0) p.seed = static_cast<uint64_t>(*seed);
  if (dry_sequence_breakers) p.dry_sequence_breakers = split_breakers(*dry_sequence_breakers);
  return p;
}

}  // namespace mlxcel::apps

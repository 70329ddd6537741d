#include <fmt/core.h>

#include <cmath>

#include "base/error.h"
#include "nn/dense_config.h"
#include "nn/mamba2.h"

namespace mlxcel::nn {

void read_dt_limits(const io::Config& c, std::string_view key, Mamba2Options& o) {
  if (!c.has(key)) return;
  const auto& list = c.json().find(key)->as_array();
  if (list.size() != 2) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {} has {} entries, expected 2", c.source(), key, list.size()));
  }
  // JSON has no infinity: what writers make of it reads as null.
  if (!list[0].is_null()) o.dt_low = static_cast<float>(list[0].as_double());
  if (!list[1].is_null()) o.dt_high = static_cast<float>(list[1].as_double());
  if (!(o.dt_low <= o.dt_high)) {
    throw Error(Code::InvalidArgument, fmt::format("{}: {} = [{}, {}] is not a range", c.source(),
                                                   key, o.dt_low, o.dt_high));
  }
}

void check_mamba2(const io::Config& c, const Mamba2Options& o) {
  if (o.num_heads % o.num_groups != 0) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {} state space heads do not divide into {} groups", c.source(),
                            o.num_heads, o.num_groups));
  }
  if (o.inner_size() % o.norm_groups != 0) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {} channels do not divide into {} groups of the norm", c.source(),
                            o.inner_size(), o.norm_groups));
  }
}

Mamba2Options mamba2_from(const io::Config& c, int64_t hidden_size) {
  Mamba2Options o;
  o.hidden_size = hidden_size;
  const int64_t inner = c.has("mamba_d_ssm") ? c.size("mamba_d_ssm", 1, kMaxInnerSize)
                                             : c.size_or("mamba_expand", 2, 1, 64) * hidden_size;
  o.num_heads = c.size_or("mamba_n_heads", 128, 1, 4096);
  const Json* head = c.json().find("mamba_d_head");
  const bool automatic = head == nullptr || head->is_null() || head->is_string();
  if (head != nullptr && head->is_string()) c.expect("mamba_d_head", "auto");
  o.head_dim = automatic ? inner / o.num_heads : c.size("mamba_d_head", 1, 4096);
  if (o.inner_size() != inner || o.head_dim < 1) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: mamba_n_heads = {} heads of {} elements do not make {} channels",
                            c.source(), o.num_heads, o.head_dim, inner));
  }
  o.num_groups = c.size_or("mamba_n_groups", 1, 1, 4096);
  o.num_states = c.size_or("mamba_d_state", 256, 1, 4096);
  o.conv_taps = c.size_or("mamba_d_conv", 4, 2, 64);
  o.conv_bias = bias_from(c, "mamba_conv_bias", true);
  o.in_bias = o.out_bias = bias_from(c, "mamba_proj_bias", false);
  read_dt_limits(c, "time_step_limit", o);
  return o;
}

}  // namespace mlxcel::nn

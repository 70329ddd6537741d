#include "nn/rope.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numbers>

#include "base/error.h"
#include "ops/ops.h"

namespace mlxcel::nn {
namespace {

/// 1 / base^(2i / dim), each step rounded to f32.
std::vector<float> plain_frequencies(float base, int64_t dim) {
  std::vector<float> out;
  for (int64_t i = 0; i < dim; i += 2) {
    out.push_back(1.0F / std::pow(base, static_cast<float>(i) / static_cast<float>(dim)));
  }
  return out;
}

/// Base of NTK-aware scaling at a live length (ratio 1 up to max_positions).
float dynamic_base(const RopeConfig& c, int64_t length) {
  const auto factor = static_cast<float>(c.factor);
  if (length <= c.max_positions) return static_cast<float>(c.theta);
  const float ratio = factor * static_cast<float>(length) / static_cast<float>(c.max_positions) -
                      static_cast<float>(c.factor - 1.0);
  const auto dim = static_cast<double>(c.rotary_dim);
  return static_cast<float>(c.theta) * std::pow(ratio, static_cast<float>(dim / (dim - 2.0)));
}

/// Llama 3: wavelengths longer than original / low are divided by the factor, those shorter than
/// original / high stay, and between them the two are blended.
void scale_llama3(const RopeConfig& c, std::vector<float>& freqs) {
  const auto original = static_cast<double>(c.original_max_positions);
  const auto low_wavelength = static_cast<float>(original / c.low_freq_factor);
  const auto high_wavelength = static_cast<float>(original / c.high_freq_factor);
  const auto factor = static_cast<float>(c.factor);
  for (float& f : freqs) {
    const float wavelength = static_cast<float>(2.0 * std::numbers::pi) / f;
    if (wavelength < high_wavelength) continue;
    if (wavelength > low_wavelength) {
      f /= factor;
      continue;
    }
    const float smooth =
        (static_cast<float>(original) / wavelength - static_cast<float>(c.low_freq_factor)) /
        static_cast<float>(c.high_freq_factor - c.low_freq_factor);
    f = (1.0F - smooth) * f / factor + smooth * f;
  }
}

/// YaRN, section 3.2: frequencies that turn often within the original length are kept, those that
/// turn rarely are interpolated, with a linear ramp between the two dimensions.
void scale_yarn(const RopeConfig& c, std::vector<float>& freqs) {
  const auto dim = static_cast<double>(c.rotary_dim);
  const auto dimension_of = [&](double rotations) {
    const double ratio =
        static_cast<double>(c.original_max_positions) / (rotations * 2.0 * std::numbers::pi);
    return dim * std::log(ratio) / (2.0 * std::log(c.theta));
  };
  double low = dimension_of(c.beta_fast), high = dimension_of(c.beta_slow);
  if (c.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;  // the ramp needs a width
  const auto factor = static_cast<float>(c.factor);
  for (size_t i = 0; i < freqs.size(); ++i) {
    const float ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0F,
        1.0F);
    const float keep = 1.0F - ramp;
    const float power = std::pow(static_cast<float>(c.theta),
                                 static_cast<float>(2 * i) / static_cast<float>(c.rotary_dim));
    const float interpolated = 1.0F / (factor * power);
    freqs[i] = interpolated * (1.0F - keep) + freqs[i] * keep;
  }
}

}  // namespace

std::vector<float> rope_frequencies(const RopeConfig& c, int64_t length) {
  const float base =
      c.type == RopeConfig::Type::Dynamic ? dynamic_base(c, length) : static_cast<float>(c.theta);
  std::vector<float> freqs = plain_frequencies(base, c.rotary_dim);
  if (c.type == RopeConfig::Type::LongRope) {
    const auto& divisors = length > c.original_max_positions ? c.long_factors : c.short_factors;
    const auto dim = static_cast<float>(c.rotary_dim);
    for (size_t i = 0; i < freqs.size(); ++i) {
      freqs[i] = 1.0F / (divisors[i] * std::pow(base, static_cast<float>(2 * i) / dim));
    }
  }
  if (c.type == RopeConfig::Type::Proportional) {
    std::fill(freqs.begin() + c.moving, freqs.end(), 0.0F);
    for (float& f : freqs) f /= static_cast<float>(c.factor);
  }
  if (c.type == RopeConfig::Type::Linear) {
    for (float& f : freqs) f /= static_cast<float>(c.factor);
  }
  if (c.type == RopeConfig::Type::Llama3) scale_llama3(c, freqs);
  if (c.type == RopeConfig::Type::Yarn) scale_yarn(c, freqs);
  for (size_t i = 0; i < c.freq_factors.size(); ++i) freqs[i] /= c.freq_factors[i];
  return freqs;
}

struct Rope::DeviceCopy {
  std::once_flag once;
  Tensor inv_freq, long_freq;
};

Rope::Rope(const RopeConfig& c)
    : copy_(std::make_shared<DeviceCopy>()),
      long_attention_factor_(c.long_attention_factor),
      attention_factor_(c.attention_factor),
      interleaved_(c.interleaved) {
  const int64_t half = c.rotary_dim / 2;
  if (c.type == RopeConfig::Type::LongRope) {
    long_from_ = c.original_max_positions;
    inv_freq_ = Tensor::of(rope_frequencies(c, long_from_), {half});
    long_freq_ = Tensor::of(rope_frequencies(c, long_from_ + 1), {half});
    return;
  }
  int64_t first = c.max_positions, last = c.max_positions;
  if (c.type == RopeConfig::Type::Dynamic) {
    last = c.usable_positions();
    constexpr int64_t kMostEntries = int64_t{1} << 26;
    if (last - first >= kMostEntries / half) {
      throw Error(Code::Unsupported,
                  fmt::format("dynamic rotary scaling from {} to {} positions is too long a range",
                              first, last));
    }
    table_begin_ = static_cast<int32_t>(first - 1);
  }
  inv_freq_ = Tensor::empty(Shape{last - first + 1, half}, DType::F32);
  auto out = inv_freq_.host_mut<float>().begin();
  for (int64_t length = first; length <= last; ++length) {
    out = std::ranges::copy(rope_frequencies(c, length), out).out;
  }
  if (c.type != RopeConfig::Type::Dynamic) inv_freq_ = inv_freq_.view({half});
}

const Tensor& Rope::frequencies_on(Device device, bool long_prompt) const {
  if (device.kind == DeviceKind::Cpu) return long_prompt ? long_freq_ : inv_freq_;
  std::call_once(copy_->once, [&] {
    copy_->inv_freq = inv_freq_.to(device);
    if (long_freq_) copy_->long_freq = long_freq_.to(device);
  });
  return long_prompt ? copy_->long_freq : copy_->inv_freq;
}

void Rope::rotate(Tensor& q, Tensor& k, const Tensor& positions, bool long_prompt) const {
  const Tensor& inv_freq = frequencies_on(q.device(), long_prompt);
  const float factor = long_prompt ? long_attention_factor_ : attention_factor_;
  if (k) {
    ops::rope_pair(q, k, positions, inv_freq, interleaved_, factor, table_begin_);
  } else {
    ops::rope(q, positions, inv_freq, interleaved_, factor, table_begin_);
  }
}

void Rope::apply(Tensor& q, Tensor& k, const Tensor& positions) const {
  MLXCEL_CHECK(!long_freq_, "these positions depend on the prompt's length");
  rotate(q, k, positions, false);
}

void Rope::apply(Tensor& q, Tensor& k, const Batch& batch) const {
  if (!long_freq_) return apply(q, k, batch.positions);
  const auto is_long = [&](const Segment& s) { return s.prompt_len > long_from_; };
  // Neighbours of one kind are turned together.
  for (size_t i = 0; i < batch.segments.size();) {
    const Segment& first = batch.segments[i];
    int64_t end = first.row;
    for (; i < batch.segments.size() && batch.segments[i].row == end &&
           is_long(batch.segments[i]) == is_long(first);
         ++i) {
      end += batch.segments[i].q_len;
    }
    const Tensor positions = batch.positions.slice(0, first.row, end);
    Tensor q_part = q.slice(0, first.row, end);
    Tensor k_part = k ? k.slice(0, first.row, end) : Tensor();
    rotate(q_part, k_part, positions, is_long(first));
  }
}

void Rope::apply_and_append(const ops::PagedKv& kv, std::span<const ops::AttentionSegment> segments,
                            Tensor& q, Tensor& k, const Tensor& v, const Tensor& positions) const {
  MLXCEL_CHECK(!long_freq_, "these positions depend on the prompt's length");
  ops::rope_append(kv, segments, q, k, v, positions, frequencies_on(q.device(), false),
                   interleaved_, attention_factor_, table_begin_);
}

}  // namespace mlxcel::nn

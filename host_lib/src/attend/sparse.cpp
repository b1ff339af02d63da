#include "attend/sparse.hpp"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attend/sparse.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "attend/exp2-inl.h"
#include "attend/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearkv {
namespace HWY_NAMESPACE {

using FloatTag = hn::CappedTag<float, 16>;

/// cap * tanh of them by cap.
HWY_INLINE hn::Vec<FloatTag> soft_capped(hn::Vec<FloatTag> logits, float cap) {
  const FloatTag d;
  return hn::Mul(hn::Set(d, cap), tanh(d, hn::Mul(logits, hn::Set(d, 1.0F / cap))));
}

/// Logits of as many tokens as a vector holds.
HWY_INLINE hn::Vec<FloatTag> midpoint_logits(const std::int16_t* HWY_RESTRICT mids,
                                             const MidpointLogit& logit) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const hn::Rebind<std::int16_t, FloatTag> d16;
  const auto slope = hn::Set(d, logit.slope);
  const auto mid = hn::PromoteTo(di, hn::LoadU(d16, mids));
  const auto linear = hn::MulAdd(hn::ConvertTo(d, mid), slope, hn::Set(d, logit.intercept));
  if (logit.soft_cap <= 0) return linear;
  const auto start = hn::And(mid, hn::Set(di, -MidpointLogit::kLine));
  const auto place = hn::ConvertTo(d, hn::Sub(mid, start));
  const auto first = hn::MulAdd(hn::ConvertTo(d, start), slope, hn::Set(d, logit.intercept));
  const auto next = hn::Add(first, hn::Set(d, logit.slope * MidpointLogit::kLine));
  const auto from = soft_capped(first, logit.soft_cap);
  const auto rise = hn::Sub(soft_capped(next, logit.soft_cap), from);
  return hn::MulAdd(rise, hn::Mul(place, hn::Set(d, 1.0F / MidpointLogit::kLine)), from);
}

float weigh_midpoints_target(const std::int16_t* HWY_RESTRICT mids, std::uint64_t mask,
                             const MidpointLogit& logit, float reference,
                             float* HWY_RESTRICT weights) {
  const FloatTag d;
  auto sum = hn::Zero(d);
  for (std::size_t t = 0; t < NKV_PAGE_TOKENS; t += hn::Lanes(d)) {
    auto weight = exp2(d, hn::Sub(midpoint_logits(mids + t, logit), hn::Set(d, reference)));
    const std::uint64_t bits = mask >> t;
    weight = hn::IfThenElseZero(hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(&bits)),
                                weight);
    hn::StoreU(weight, d, weights + t);
    sum = hn::Add(sum, weight);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

void level_midpoints_target(const std::int16_t* HWY_RESTRICT mids, const MidpointLogit& logit,
                            float top, int last, std::uint8_t* HWY_RESTRICT levels) {
  constexpr float kLevelsOfOctave = 3.5F;
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const hn::Rebind<std::uint8_t, FloatTag> d8;
  const auto most = hn::Set(d, static_cast<float>(last));
  for (std::size_t t = 0; t < NKV_PAGE_TOKENS; t += hn::Lanes(d)) {
    auto level = hn::Mul(hn::Sub(hn::Set(d, top), midpoint_logits(mids + t, logit)),
                         hn::Set(d, kLevelsOfOctave));
    level = hn::Clamp(level, hn::Zero(d), most);
    hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(di, level)), d8, levels + t);
  }
}

void add_scaled_target(float weight, const float* HWY_RESTRICT values, std::size_t dim,
                       float* HWY_RESTRICT accumulator) {
  const FloatTag d;
  const auto factor = hn::Set(d, weight);
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
    const auto sum = hn::LoadU(d, accumulator + c);
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, values + c), sum), d, accumulator + c);
  }
}

void page_mean_target(const std::int32_t* HWY_RESTRICT sums, std::size_t value_dim, float unit,
                      const float* HWY_RESTRICT subtract, std::size_t tokens,
                      std::span<const std::int32_t> channels, float* HWY_RESTRICT mean) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const auto end = hn::Set(di, static_cast<std::int32_t>(value_dim));
  const auto scale = hn::Set(d, unit);
  const auto inverse = hn::Set(d, 1.0F / static_cast<float>(tokens));
  for (std::size_t c = 0; c < channels.size(); c += hn::Lanes(d)) {
    const auto channel = hn::LoadU(di, channels.data() + c);
    const auto present = hn::Lt(channel, end);
    const auto from = hn::IfThenElseZero(present, channel);
    auto sum = hn::Mul(hn::ConvertTo(d, hn::GatherIndex(di, sums, from)), scale);
    if (subtract != nullptr) sum = hn::Sub(sum, hn::LoadU(d, subtract + c));
    hn::StoreU(hn::IfThenElseZero(hn::RebindMask(d, present), hn::Mul(sum, inverse)), d, mean + c);
  }
}

void add_difference_target(const float* HWY_RESTRICT value, const float* HWY_RESTRICT mean,
                           std::size_t dim, float weight, float approximate, float more,
                           float* HWY_RESTRICT state, float* HWY_RESTRICT group) {
  const FloatTag d;
  const auto v_weight = hn::Set(d, weight);
  const auto v_approximate = hn::Set(d, approximate);
  const auto v_more = hn::Set(d, more);
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
    const auto y = hn::NegMulAdd(v_approximate, hn::LoadU(d, mean + c),
                                 hn::Mul(v_weight, hn::LoadU(d, value + c)));
    hn::StoreU(hn::Add(hn::LoadU(d, state + c), y), d, state + c);
    hn::StoreU(hn::MulAdd(v_more, y, hn::LoadU(d, group + c)), d, group + c);
  }
}

void decode_value_target(const RowSource& values, std::size_t token, float* HWY_RESTRICT out) {
  decode_rows(values, token, 1, out);
}

void accumulate_token_target(const RowSource& values, std::size_t token, const float* weights,
                             std::size_t rows, float* HWY_RESTRICT accumulator,
                             float* HWY_RESTRICT page_sum) {
  HWY_ALIGN float value[NKV_MAX_HEAD_DIM];
  decode_rows(values, token, 1, value);
  for (std::size_t row = 0; row < rows; ++row) {
    add_scaled_target(weights[row], value, values.dim, accumulator + row * values.dim);
  }
  if (page_sum != nullptr) add_scaled_target(1.0F, value, values.dim, page_sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace nearkv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nearkv {

HWY_EXPORT(weigh_midpoints_target);
HWY_EXPORT(add_scaled_target);
HWY_EXPORT(accumulate_token_target);
HWY_EXPORT(page_mean_target);
HWY_EXPORT(level_midpoints_target);
HWY_EXPORT(add_difference_target);
HWY_EXPORT(decode_value_target);

float MidpointLogit::of(std::int32_t mid) const {
  const auto linear = [this](std::int32_t at) {
    return slope * static_cast<float>(at) + intercept;
  };
  if (soft_cap <= 0) return linear(mid);
  const auto capped = [&](std::int32_t at) { return soft_cap * std::tanh(linear(at) / soft_cap); };
  const std::int32_t start = mid & -kLine;
  const float from = capped(start);
  return std::lerp(from, capped(start + kLine), static_cast<float>(mid - start) / kLine);
}

float weigh_midpoints(const std::int16_t* mids, std::uint64_t mask, const MidpointLogit& logit,
                      float reference, float* weights) {
  return HWY_DYNAMIC_DISPATCH(weigh_midpoints_target)(mids, mask, logit, reference, weights);
}

void accumulate_token(const RowSource& values, std::size_t token, std::span<const float> weights,
                      float* accumulator, float* page_sum) {
  HWY_DYNAMIC_DISPATCH(accumulate_token_target)
  (values, token, weights.data(), weights.size(), accumulator, page_sum);
}

void page_mean(const std::int32_t* sums, std::size_t value_dim, float unit, const float* subtract,
               std::size_t tokens, std::span<const std::int32_t> channels, float* mean) {
  HWY_DYNAMIC_DISPATCH(page_mean_target)(sums, value_dim, unit, subtract, tokens, channels, mean);
}

void level_midpoints(const std::int16_t* mids, const MidpointLogit& logit, float top, int last,
                     std::uint8_t* levels) {
  HWY_DYNAMIC_DISPATCH(level_midpoints_target)(mids, logit, top, last, levels);
}

void add_difference(const float* value, const float* mean, std::size_t dim, float weight,
                    float approximate, float more, float* state, float* group) {
  HWY_DYNAMIC_DISPATCH(add_difference_target)
  (value, mean, dim, weight, approximate, more, state, group);
}

void decode_value(const RowSource& values, std::size_t token, float* out) {
  HWY_DYNAMIC_DISPATCH(decode_value_target)(values, token, out);
}

void add_scaled(float weight, const float* values, std::size_t dim, float* accumulator) {
  HWY_DYNAMIC_DISPATCH(add_scaled_target)(weight, values, dim, accumulator);
}

}  // namespace nearkv
#endif  // HWY_ONCE

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

WeightSums weigh_midpoints_target(const std::int16_t* HWY_RESTRICT mids, std::uint64_t mask,
                                  const MidpointLogit& logit, float reference,
                                  float* HWY_RESTRICT weights) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const hn::Rebind<std::int16_t, FloatTag> d16;
  const auto slope = hn::Set(d, logit.slope);
  const auto cap = hn::Set(d, logit.soft_cap);
  const auto inverse_cap = hn::Set(d, logit.soft_cap > 0 ? 1.0F / logit.soft_cap : 0.0F);
  auto sum = hn::Zero(d);
  auto squares = hn::Zero(d);
  for (std::size_t t = 0; t < NKV_PAGE_TOKENS; t += hn::Lanes(d)) {
    const auto mid = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d16, mids + t)));
    auto value = hn::MulAdd(mid, slope, hn::Set(d, logit.intercept));
    if (logit.soft_cap > 0) value = hn::Mul(cap, tanh(d, hn::Mul(value, inverse_cap)));
    auto weight = exp2(d, hn::Sub(value, hn::Set(d, reference)));
    const std::uint64_t bits = mask >> t;
    weight = hn::IfThenElseZero(hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(&bits)),
                                weight);
    hn::StoreU(weight, d, weights + t);
    sum = hn::Add(sum, weight);
    squares = hn::MulAdd(weight, weight, squares);
  }
  return {hn::GetLane(hn::SumOfLanes(d, sum)), hn::GetLane(hn::SumOfLanes(d, squares))};
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

void add_contributions_target(const float* HWY_RESTRICT weights, std::uint64_t mask, float mean,
                              float spread, float noise, float factor, float* HWY_RESTRICT own,
                              float* HWY_RESTRICT squares) {
  const FloatTag d;
  const auto spread_factor = hn::Set(d, spread * factor);
  const auto noise_factor = hn::Set(d, noise * factor);
  for (std::size_t t = 0; t < NKV_PAGE_TOKENS; t += hn::Lanes(d)) {
    const auto weight = hn::LoadU(d, weights + t);
    const auto lift = hn::Sub(weight, hn::Set(d, mean));
    auto term = hn::Mul(hn::Mul(lift, lift), spread_factor);
    term = hn::MulAdd(hn::Mul(weight, weight), noise_factor, term);
    const std::uint64_t bits = mask >> t;
    term =
        hn::IfThenElseZero(hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(&bits)), term);
    hn::StoreU(term, d, own + t);
    hn::StoreU(hn::Add(hn::LoadU(d, squares + t), term), d, squares + t);
  }
}

float squared_distance_target(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                              std::size_t dim) {
  const FloatTag d;
  auto sum = hn::Zero(d);
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
    const auto difference = hn::Sub(hn::LoadU(d, a + c), hn::LoadU(d, b + c));
    sum = hn::MulAdd(difference, difference, sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

void add_sample_target(const float* HWY_RESTRICT value, const float* HWY_RESTRICT mean,
                       const float* HWY_RESTRICT output, std::size_t dim, float difference,
                       float lift, float inverse_q, float g, SampleSums* sums) {
  const FloatTag d;
  const auto v_difference = hn::Set(d, difference);
  const auto v_lift = hn::Set(d, lift);
  const auto v_inverse = hn::Set(d, inverse_q);
  const auto v_cross = hn::Set(d, g * difference);
  auto squares = hn::Zero(d);
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
    const auto page_mean = hn::LoadU(d, mean + c);
    const auto centred = hn::Sub(page_mean, hn::LoadU(d, output + c));
    const auto residual = hn::Sub(hn::LoadU(d, value + c), page_mean);
    const auto e = hn::MulAdd(v_difference, centred, hn::Mul(v_lift, residual));
    squares = hn::MulAdd(e, e, squares);
    float* const correction = sums->correction + c;
    float* const cross = sums->cross + c;
    hn::StoreU(hn::MulAdd(v_inverse, e, hn::LoadU(d, correction)), d, correction);
    hn::StoreU(hn::MulAdd(v_cross, e, hn::LoadU(d, cross)), d, cross);
  }
  const auto weight = static_cast<double>(g);
  sums->squares += weight * static_cast<double>(hn::GetLane(hn::SumOfLanes(d, squares)));
  sums->difference_squares +=
      weight * static_cast<double>(difference) * static_cast<double>(difference);
  sums->difference += static_cast<double>(difference) * static_cast<double>(inverse_q);
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
HWY_EXPORT(add_contributions_target);
HWY_EXPORT(squared_distance_target);
HWY_EXPORT(add_sample_target);
HWY_EXPORT(decode_value_target);

float MidpointLogit::of(float mid) const {
  const float logit = slope * mid + intercept;
  return soft_cap > 0 ? soft_cap * std::tanh(logit / soft_cap) : logit;
}

WeightSums weigh_midpoints(const std::int16_t* mids, std::uint64_t mask, const MidpointLogit& logit,
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

void add_contributions(const float* weights, std::uint64_t mask, float mean, float spread,
                       float noise, float factor, float* own, float* squares) {
  HWY_DYNAMIC_DISPATCH(add_contributions_target)
  (weights, mask, mean, spread, noise, factor, own, squares);
}

float squared_distance(const float* a, const float* b, std::size_t dim) {
  return HWY_DYNAMIC_DISPATCH(squared_distance_target)(a, b, dim);
}

void add_sample(const float* value, const float* mean, const float* output, std::size_t dim,
                float d, float lift, float inverse_q, float g, SampleSums* sums) {
  HWY_DYNAMIC_DISPATCH(add_sample_target)
  (value, mean, output, dim, d, lift, inverse_q, g, sums);
}

void decode_value(const RowSource& values, std::size_t token, float* out) {
  HWY_DYNAMIC_DISPATCH(decode_value_target)(values, token, out);
}

void add_scaled(float weight, const float* values, std::size_t dim, float* accumulator) {
  HWY_DYNAMIC_DISPATCH(add_scaled_target)(weight, values, dim, accumulator);
}

}  // namespace nearkv
#endif  // HWY_ONCE

#include "attend/exact.hpp"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attend/exact.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "attend/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearkv {
namespace HWY_NAMESPACE {

/// Key elements as aligned integers in binary64: k * 2^(152 - Ek), truncated.
void align_key(const float* HWY_RESTRICT key, std::size_t dim, double scale,
               double* HWY_RESTRICT aligned) {
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> df;
  const auto factor = hn::Set(d, scale);
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
    const auto value = hn::PromoteTo(d, hn::Load(df, key + c));
    hn::Store(hn::Trunc(hn::Mul(value, factor)), d, aligned + c);
  }
}

void exact_scores_target(const RowSource& keys, std::size_t token, double scale,
                         const double* HWY_RESTRICT high, const double* HWY_RESTRICT low,
                         std::size_t rows, std::int64_t* HWY_RESTRICT scores) {
  const hn::CappedTag<double, 8> d;
  HWY_ALIGN float key[NKV_MAX_HEAD_DIM];
  HWY_ALIGN double aligned[NKV_MAX_HEAD_DIM];
  decode_rows(keys, token, 1, key);
  align_key(key, keys.dim, scale, aligned);
  for (std::size_t row = 0; row < rows; ++row) {
    // Every partial sum is a whole number below 2^53.
    auto high_sum = hn::Zero(d);
    auto low_sum = hn::Zero(d);
    for (std::size_t c = 0; c < keys.dim; c += hn::Lanes(d)) {
      const auto value = hn::Load(d, aligned + c);
      high_sum = hn::MulAdd(value, hn::Load(d, high + row * keys.dim + c), high_sum);
      low_sum = hn::MulAdd(value, hn::Load(d, low + row * keys.dim + c), low_sum);
    }
    scores[row] = static_cast<std::int64_t>(hn::GetLane(hn::SumOfLanes(d, high_sum))) * 4096 +
                  static_cast<std::int64_t>(hn::GetLane(hn::SumOfLanes(d, low_sum)));
  }
}

void split_row(const std::int32_t* HWY_RESTRICT aligned, std::size_t dim, double* HWY_RESTRICT high,
               double* HWY_RESTRICT low) {
  for (std::size_t channel = 0; channel < dim; ++channel) {
    const std::size_t position = kernel_position(channel, dim);
    high[position] = static_cast<double>(aligned[channel] >> 12);
    low[position] = static_cast<double>(aligned[channel] & 4095);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nearkv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nearkv {

HWY_EXPORT(exact_scores_target);
HWY_EXPORT(split_row);

ExactScorer::ExactScorer(const Query& query, int key_exponent)
    : rows_(query.rows()),
      dim_(query.dim()),
      key_scale_(std::ldexp(1.0, 152 - key_exponent)),
      high_(hwy::AllocateAligned<double>(rows_ * dim_)),
      low_(hwy::AllocateAligned<double>(rows_ * dim_)),
      units_(hwy::AllocateAligned<double>(rows_)) {
  for (std::size_t row = 0; row < rows_; ++row) {
    HWY_DYNAMIC_DISPATCH(split_row)
    (query.aligned(row).data(), dim_, high_.get() + row * dim_, low_.get() + row * dim_);
    units_[row] = score_unit(query.exponent(row), key_exponent);
  }
}

void ExactScorer::score(const RowSource& keys, std::size_t token, std::int64_t* scores) const {
  HWY_DYNAMIC_DISPATCH(exact_scores_target)
  (keys, token, key_scale_, high_.get(), low_.get(), rows_, scores);
}

}  // namespace nearkv
#endif  // HWY_ONCE

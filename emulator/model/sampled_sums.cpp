#include "sampled_sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "number.hpp"

namespace nearkv::model {

namespace {

constexpr int64_t kLogitLimit = (int64_t{1} << 47) - 1;
constexpr int64_t kTermLimit = (int64_t{1} << 25) - 1;
constexpr int64_t kResidualLimit = (int64_t{1} << 24) - 1;
constexpr int kTotalBits = 25;
constexpr int64_t kGroups = SampledSums::kSums - 1;
constexpr int64_t kOctave = int64_t{1} << 24;

// The excess of 2^j tokens over the one that the state has taken: w − (w >> j).
Weight excess(Weight weight, int halvings) {
  weight.mantissa -= weight.mantissa >> halvings;
  return weight;
}

}  // namespace

int64_t output_integer(int64_t acc, int64_t z) {
  const Quotient quotient = quotient_of(acc, z);
  const int64_t magnitude =
      scale_saturating(static_cast<int64_t>(quotient.magnitude), quotient.power + 24, kTermLimit);
  return acc < 0 ? -magnitude : magnitude;
}

SampledSums::SampledSums(size_t value_dim) {
  for (SampledSum& sum : sums_) sum.acc.assign(value_dim, 0);
}

void SampledSums::clear_groups() {
  for (size_t i = 1; i < kSums; ++i) {
    sums_[i].z = 0;
    std::ranges::fill(sums_[i].acc, 0);
  }
}

int64_t SampledSums::scaled(int64_t logit, int halvings) {
  return std::min(logit + int64_t{halvings} * 65536, kLogitLimit);
}

void SampledSums::raise_reference(int64_t largest_integer_part) {
  const int64_t raised = std::max(reference_, largest_integer_part);
  const int distance = static_cast<int>(std::min<int64_t>(raised - reference_, 63));
  for (SampledSum& sum : sums_) {
    sum.z = floor_shift(sum.z, distance);
    for (int64_t& channel : sum.acc) channel = floor_shift(channel, distance);
  }
  reference_ = raised;
}

void SampledSums::add_to(SampledSum* sum, const Weight& weight, bool is_negative,
                         std::span<const int32_t> value) {
  if (weight.is_zero()) return;
  sum->z += is_negative ? -weight.units() : weight.units();
  for (size_t c = 0; c < sum->acc.size(); ++c) {
    sum->acc[c] += floor_shift(weight.mantissa * value[c], static_cast<int>(weight.shift));
  }
}

void SampledSums::add_sampled(int64_t exact, int64_t approximate, int halvings, size_t group,
                              const SampledValues& values) {
  add_to(&sums_[0], weight_of(exact, reference_), false, values.own);
  add_to(&sums_[0], weight_of(approximate, reference_), true, values.negative_mean);
  const Weight more = weight_of(scaled(exact, halvings), reference_);
  const Weight less = weight_of(scaled(approximate, halvings), reference_);
  add_to(&sums_[group], excess(more, halvings), false, values.own);
  add_to(&sums_[group], excess(less, halvings), true, values.negative_mean);
}

SampledSum SampledSums::sum_of_all() const {
  SampledSum all = sums_[0];
  for (size_t i = 1; i < kSums; ++i) {
    all.z += sums_[i].z;
    for (size_t c = 0; c < all.acc.size(); ++c) all.acc[c] += sums_[i].acc[c];
  }
  return all;
}

RowSoftmax SampledSums::total() const {
  SampledSum all = sum_of_all();
  if (all.z <= 0) return {reference_, 1, std::vector<int64_t>(all.acc.size(), 0)};
  return {reference_, all.z, std::move(all.acc)};
}

LogBound SampledSums::bound(uint32_t sixteenths, int64_t least) const {
  const SampledSum all = sum_of_all();
  if (all.z <= 0) return std::nullopt;
  const int shift = static_cast<int>(std::bit_width(static_cast<uint64_t>(all.z))) - kTotalBits;
  const int64_t total = scale_saturating(all.z, -shift, kTermLimit);
  const auto scaled_down = [&](int64_t number) {
    return scale_saturating(number, -shift, kTermLimit);
  };
  uint64_t spread = 0;  // Y
  uint64_t size = 0;    // Σ o²
  for (size_t c = 0; c < all.acc.size(); ++c) {
    const int64_t output = output_integer(all.acc[c], all.z);
    int64_t sum = 0;
    int64_t squares = 0;
    for (size_t i = 1; i < kSums; ++i) {
      const int64_t expected = floor_shift(output * scaled_down(sums_[i].z), 24);
      const int64_t residual =
          std::clamp(scaled_down(sums_[i].acc[c]) - expected, -kResidualLimit, kResidualLimit);
      sum += residual;
      squares += residual * residual;
    }
    spread += static_cast<uint64_t>(kGroups * squares - sum * sum);
    size += static_cast<uint64_t>(output * output);
  }
  if (spread == 0) return kNoError;
  if (size == 0) return std::nullopt;
  const int64_t bound = ((log2_fixed(spread) - log2_fixed(size)) >> 1) + log2_fixed(sixteenths) -
                        log2_fixed(static_cast<uint64_t>(total)) + 19 * kOctave;
  return std::max(bound, least);
}

float number_of(const LogBound& bound) {
  if (!bound) return std::numeric_limits<float>::infinity();
  if (*bound == kNoError) return 0.0f;
  const int64_t logit = *bound >> 8;
  const Weight weight = weight_of(logit, integer_part(logit));
  return static_cast<float>(
      std::ldexp(static_cast<double>(weight.mantissa), static_cast<int>(logit >> 16) - 17));
}

}  // namespace nearkv::model

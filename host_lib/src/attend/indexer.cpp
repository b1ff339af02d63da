#include "attend/indexer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "page/elements.hpp"

namespace nearkv {
namespace {

constexpr int kSignificandBits = 48;  // Of R.
constexpr std::uint32_t kHiddenBit = 0x800000U;

/// The significand of a finite number with its hidden bit, unsigned; 0 of a subnormal one.
std::uint64_t significand(float value) {
  if (biased_exponent(value) == 0) return 0;
  return (std::bit_cast<std::uint32_t>(value) & (kHiddenBit - 1)) | kHiddenBit;
}

/// The top bits of a number that is not 0, shifted left if it is shorter.
std::uint64_t top(std::uint64_t magnitude, int bits) {
  const int power = static_cast<int>(std::bit_width(magnitude)) - bits;
  return power >= 0 ? magnitude >> power : magnitude << -power;
}

}  // namespace

IndexerScorer::IndexerScorer(std::span<const float> weights, const Query& query, int key_exponent) {
  int shared = 0;
  for (std::size_t row = 0; row < weights.size(); ++row) {
    shared = std::max(shared, biased_exponent(weights[row]) + query.exponent(row));
  }
  for (std::size_t row = 0; row < weights.size(); ++row) {
    const int distance = shared - biased_exponent(weights[row]) - query.exponent(row);
    const auto magnitude =
        static_cast<std::int64_t>((significand(weights[row]) << 3) >> std::min(distance, 63));
    weights_.push_back(std::signbit(weights[row]) ? -magnitude : magnitude);
  }
  power_ = shared + key_exponent - 599;
}

std::int64_t IndexerScorer::rank(std::span<const std::int64_t> scores, float key_scale) const {
  std::int64_t sum = 0;
  for (std::size_t row = 0; row < weights_.size(); ++row) {
    sum += (weights_[row] * (std::max<std::int64_t>(scores[row], 0) >> 23)) >> 7;
  }
  if (sum == 0 || significand(key_scale) == 0) return 0;
  const auto magnitude = static_cast<std::uint64_t>(std::abs(sum));
  const std::uint64_t product = top(magnitude, 32) * significand(key_scale);
  const auto bits = static_cast<int>(std::bit_width(magnitude) + std::bit_width(product));
  const int exponent = bits - 55 + biased_exponent(key_scale);
  const auto rank = static_cast<std::int64_t>(
      (static_cast<std::uint64_t>(exponent) << kSignificandBits) + top(product, kSignificandBits));
  return (sum < 0) != std::signbit(key_scale) ? -rank : rank;
}

double IndexerScorer::score(std::int64_t rank) const {
  constexpr std::int64_t kOne = std::int64_t{1} << kSignificandBits;
  const std::int64_t magnitude = std::abs(rank);
  const double score = std::ldexp(static_cast<double>(magnitude % kOne),
                                  static_cast<int>(magnitude / kOne) + power_);
  return rank < 0 ? -score : score;
}

}  // namespace nearkv

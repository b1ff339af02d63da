#include "indexer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "number.hpp"

namespace nearkv::model {

namespace {

constexpr int kSignificandBits = 48;  // Of R.

}  // namespace

IndexerWeights::IndexerWeights(std::span<const uint32_t> weights,
                               std::span<const int> query_exponents) {
  for (size_t row = 0; row < weights.size(); ++row) {
    exponent_ = std::max(exponent_, decode_binary32(weights[row]).exponent + query_exponents[row]);
  }
  for (size_t row = 0; row < weights.size(); ++row) {
    const Number weight = decode_binary32(weights[row]);
    const int distance = exponent_ - weight.exponent - query_exponents[row];
    const int64_t magnitude = floor_shift(weight.significand << 3, distance);
    integers_.push_back(weight.negative ? -magnitude : magnitude);
  }
}

int64_t IndexerWeights::sum(std::span<const int64_t> scores) const {
  int64_t sum = 0;
  for (size_t row = 0; row < integers_.size(); ++row) {
    sum += (integers_[row] * (std::max<int64_t>(scores[row], 0) >> 23)) >> 7;
  }
  return sum;
}

int64_t indexer_rank(int64_t sum, uint32_t key_scale) {
  const Number scale = decode_binary32(key_scale);
  if (sum == 0 || scale.significand == 0) return 0;
  const auto magnitude = static_cast<uint64_t>(std::abs(sum));
  const uint64_t product = top_bits(magnitude, 32).top * static_cast<uint64_t>(scale.significand);
  const auto bits = static_cast<int>(std::bit_width(magnitude) + std::bit_width(product));
  const int exponent = bits - 55 + scale.exponent;
  const auto rank = static_cast<int64_t>((static_cast<uint64_t>(exponent) << kSignificandBits) +
                                         top_bits(product, kSignificandBits).top);
  return (sum < 0) != scale.negative ? -rank : rank;
}

double indexer_score(int64_t rank, int weight_exponent, int key_exponent) {
  constexpr int64_t kOne = int64_t{1} << kSignificandBits;
  const int64_t magnitude = std::abs(rank);
  const auto exponent = static_cast<int>(magnitude / kOne);
  const double score = std::ldexp(static_cast<double>(magnitude % kOne),
                                  exponent + weight_exponent + key_exponent - 599);
  return rank < 0 ? -score : score;
}

}  // namespace nearkv::model

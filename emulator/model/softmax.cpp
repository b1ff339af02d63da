#include "softmax.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "logit.hpp"
#include "rounding.hpp"
#include "tables.hpp"

namespace nearkv::model {

namespace {

// A positive number as 32 significant bits: top · 2^power, truncated.
struct TopBits {
  uint64_t top;
  int power;
};

TopBits top_bits(Int128 magnitude) {
  const auto high = static_cast<uint64_t>(magnitude >> 64);
  const auto low = static_cast<uint64_t>(magnitude);
  const int bits = static_cast<int>(high != 0 ? 64 + std::bit_width(high) : std::bit_width(low));
  const int power = bits - 32;
  const Int128 top = power >= 0 ? magnitude >> power : magnitude * (Int128{1} << -power);
  return {static_cast<uint64_t>(top), power};
}

// acc / z · 2^(Ev − 126) (4.1).
float quotient(Int128 acc, int64_t z, int value_exponent) {
  if (acc == 0) return 0.0f;
  const TopBits a = top_bits(acc < 0 ? -acc : acc);
  const TopBits d = top_bits(z);
  const uint64_t q = (a.top << 32) / d.top;
  return round_to_binary32(acc < 0, q, a.power - d.power - 32 + value_exponent - 126);
}

// log2 z · 2^24 (4.1).
int64_t logarithm(int64_t z) {
  const int p = static_cast<int>(std::bit_width(static_cast<uint64_t>(z))) - 1;
  const int64_t y = (p >= 23 ? z >> (p - 23) : z << (23 - p)) & 0x7fffff;
  const auto index = static_cast<size_t>(y >> 16);
  const int64_t b = interpolate(log2_table()[index], log2_table()[index + 1], y & 0xffff, 16);
  return (int64_t{p} << 24) + b;
}

}  // namespace

void RowSoftmax::raise_reference(int64_t largest_integer_part) {
  const int64_t raised = std::max(reference_, largest_integer_part);
  const int distance = static_cast<int>(std::min<int64_t>(raised - reference_, 63));
  z_ = floor_shift(z_, distance);
  for (Int128& sum : acc_) sum = floor_shift(sum, distance);
  reference_ = raised;
}

void RowSoftmax::add(int64_t logit, std::span<const int32_t> value) {
  const Weight weight = weight_of(logit, reference_);
  if (weight.is_zero()) return;
  z_ += weight.units();
  for (size_t c = 0; c < acc_.size(); ++c) {
    acc_[c] += floor_shift(weight.mantissa * value[c], static_cast<int>(weight.shift));
  }
}

void RowSoftmax::add_rest(int64_t weight, std::span<const int64_t> value_sum, int64_t reciprocal) {
  z_ += weight;
  for (size_t c = 0; c < acc_.size(); ++c) {
    acc_[c] += floor_shift(Int128{weight >> 12} * value_sum[c] * reciprocal, 28);
  }
}

std::vector<float> RowSoftmax::output(int value_exponent) const {
  std::vector<float> row(acc_.size(), 0.0f);
  if (!has_tokens()) return row;
  for (size_t c = 0; c < acc_.size(); ++c) row[c] = quotient(acc_[c], z_, value_exponent);
  return row;
}

float RowSoftmax::log_sum_exp(bool base2) const {
  constexpr int64_t kLn2 = 2977044471;  // ln 2 · 2^32, truncated.
  if (!has_tokens()) return -std::numeric_limits<float>::infinity();
  const int64_t log2 = ((reference_ - 41) * (int64_t{1} << 24)) + logarithm(z_);
  const int64_t log = base2 ? log2 : static_cast<int64_t>(floor_shift(Int128{log2} * kLn2, 32));
  const auto magnitude = static_cast<uint64_t>(log < 0 ? -log : log);
  return round_to_binary32(log < 0, magnitude, -24);
}

}  // namespace nearkv::model

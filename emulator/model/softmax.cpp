#include "softmax.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "number.hpp"
#include "rounding.hpp"
#include "tables.hpp"

namespace nearkv::model {

namespace {

// acc / z · 2^(Ev − 126) (4.1).
float rounded_quotient(int64_t acc, int64_t z, int value_exponent) {
  if (acc == 0) return 0.0f;
  const Quotient q = quotient_of(acc, z);
  return round_to_binary32(acc < 0, q.magnitude, q.power + value_exponent - 126);
}

}  // namespace

Quotient quotient_of(int64_t acc, int64_t z) {
  if (acc == 0) return {.magnitude = 0, .power = 0};
  const TopBits a = top_bits(static_cast<uint64_t>(acc < 0 ? -acc : acc), 32);
  const TopBits d = top_bits(static_cast<uint64_t>(z), 32);
  return {.magnitude = (a.top << 32) / d.top, .power = a.power - d.power - 32};
}

int64_t log2_fixed(uint64_t number) {
  const int p = static_cast<int>(std::bit_width(number)) - 1;
  const auto y =
      static_cast<int64_t>((p >= 23 ? number >> (p - 23) : number << (23 - p)) & 0x7fffff);
  const auto index = static_cast<size_t>(y >> 16);
  const int64_t b = interpolate(log2_table()[index], log2_table()[index + 1], y & 0xffff, 16);
  return (int64_t{p} << 24) + b;
}

void RowSoftmax::raise_reference(int64_t largest_integer_part) {
  const int64_t raised = std::max(reference_, largest_integer_part);
  const int distance = static_cast<int>(std::min<int64_t>(raised - reference_, 63));
  z_ = floor_shift(z_, distance);
  for (int64_t& sum : acc_) sum = floor_shift(sum, distance);
  reference_ = raised;
}

void RowSoftmax::add(const Weight& weight, std::span<const int32_t> value) {
  if (weight.is_zero()) return;
  z_ += weight.units();
  for (size_t c = 0; c < acc_.size(); ++c) {
    acc_[c] += floor_shift(weight.mantissa * value[c], static_cast<int>(weight.shift));
  }
}

void RowSoftmax::add_values(std::span<const int64_t> values) {
  for (size_t c = 0; c < acc_.size(); ++c) acc_[c] += values[c];
}

std::vector<float> RowSoftmax::output(int value_exponent) const {
  std::vector<float> row(acc_.size(), 0.0f);
  if (!has_tokens()) return row;
  for (size_t c = 0; c < acc_.size(); ++c) row[c] = rounded_quotient(acc_[c], z_, value_exponent);
  return row;
}

float RowSoftmax::log_sum_exp(bool base2) const {
  constexpr int64_t kLn2 = 2977044471;  // ln 2 · 2^32, truncated.
  if (!has_tokens()) return -std::numeric_limits<float>::infinity();
  const int64_t log2 =
      ((reference_ - 41) * (int64_t{1} << 24)) + log2_fixed(static_cast<uint64_t>(z_));
  const int64_t log = base2 ? log2 : static_cast<int64_t>(floor_shift(Int128{log2} * kLn2, 32));
  const auto magnitude = static_cast<uint64_t>(log < 0 ? -log : log);
  return round_to_binary32(log < 0, magnitude, -24);
}

}  // namespace nearkv::model

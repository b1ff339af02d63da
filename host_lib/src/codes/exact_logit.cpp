#include "codes/exact_logit.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

namespace nearkv {
namespace {

constexpr std::int64_t kLog2E = 12102203;  // log2 e * 2^23, truncated.

/// Between entries of a table, fractions of `bits` bits.
template <typename Table>
std::int64_t between(const Table& table, std::size_t index, std::int64_t fraction, int bits) {
  return table[index] + ((table[index + 1] - table[index]) * fraction >> bits);
}

}  // namespace

std::int64_t scale_saturating(Int128 value, int n, std::int64_t limit) {
  if (n > 0) {
    if (value == 0) return 0;
    if (n > 63 || value > limit || value < -limit) return value < 0 ? -limit : limit;
    value *= Int128{1} << n;
  } else {
    value >>= std::min(-n, 127);
  }
  return static_cast<std::int64_t>(std::clamp<Int128>(value, -limit, limit));
}

std::int64_t log2_fixed(std::uint64_t number) {
  static const auto table = [] {
    std::array<std::int64_t, 129> entries;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      entries[i] = std::llround(std::ldexp(std::log2(1 + static_cast<long double>(i) / 128), 24));
    }
    return entries;
  }();
  const int p = static_cast<int>(std::bit_width(number)) - 1;
  const auto y =
      static_cast<std::int64_t>((p >= 23 ? number >> (p - 23) : number << (23 - p)) & 0x7FFFFF);
  return (std::int64_t{p} << 24) +
         between(table, static_cast<std::size_t>(y >> 16), y & 0xFFFF, 16);
}

LogitScale::LogitScale(float scale) {
  const auto bits = std::bit_cast<std::uint32_t>(scale);
  const std::int64_t product = ((bits & 0x7FFFFF) | 0x800000) * kLog2E;
  const int extra = product >= std::int64_t{1} << 47 ? 1 : 0;
  const auto magnitude = static_cast<std::int32_t>(product >> (23 + extra));
  factor_ = bits >> 31 != 0 ? -magnitude : magnitude;
  power_ = static_cast<int>(bits >> 23 & 0xFF) + extra - 411;
}

std::int64_t LogitScale::logit(std::int64_t score, int query_exponent, int key_exponent) const {
  const std::int64_t product = (score >> 24) * factor_;  // Below 2^60.
  const int power = power_ + query_exponent + key_exponent;
  if (power > 0) return scale_saturating(product, power, kMostLogit);
  return std::clamp(product >> std::min(-power, 63), -kMostLogit, kMostLogit);
}

LogitWeight weight_of(std::int64_t logit, std::int64_t reference) {
  static const auto table = [] {
    std::array<std::int64_t, 65> entries;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      entries[i] = std::llround(std::ldexp(std::exp2(static_cast<long double>(i) / 64), 17));
    }
    return entries;
  }();
  const std::int64_t fraction = logit & 0xFFFF;
  const auto index = static_cast<std::size_t>(fraction >> 10);
  return {static_cast<std::int32_t>(between(table, index, fraction & 1023, 10)),
          reference - (logit >> 16)};
}

}  // namespace nearkv

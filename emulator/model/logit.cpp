#include "logit.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "number.hpp"
#include "tables.hpp"

namespace nearkv::model {

namespace {

constexpr int64_t kLog2E = 12102203;  // log2 e · 2^23, truncated.
constexpr int64_t kLogitLimit = (int64_t{1} << 47) - 1;
constexpr int64_t kCapLimit = int64_t{1} << 40;
constexpr int64_t kLastCapIndex = (int64_t{1} << 19) - 1;

// Section 3.3: K · tanh(L / K) by table.
int64_t soft_cap(int64_t logit, int64_t cap) {
  const int64_t magnitude = std::abs(logit);
  const auto ratio =
      static_cast<int64_t>(std::min<Int128>((Int128{magnitude} << 16) / cap, kLastCapIndex));
  const auto index = static_cast<size_t>(ratio >> 9);
  const int64_t tanh = interpolate(tanh_table()[index], tanh_table()[index + 1], ratio & 511, 9);
  const auto capped = static_cast<int64_t>(floor_shift(Int128{cap} * tanh, 24));
  return logit < 0 ? -capped : capped;
}

}  // namespace

LogitScale::LogitScale(float scale, float soft_cap, int key_exponent) {
  const Number number = decode_binary32(std::bit_cast<uint32_t>(scale));
  const int64_t product = number.significand * kLog2E;
  const int extra = product >= int64_t{1} << 47 ? 1 : 0;
  const int64_t magnitude = product >> (23 + extra);
  factor_ = number.negative ? -magnitude : magnitude;
  power_ = number.exponent + extra + key_exponent - 411;

  const Number cap = decode_binary32(std::bit_cast<uint32_t>(soft_cap));
  if (cap.significand != 0) {
    cap_ = std::max<int64_t>(
        scale_saturating(Int128{cap.significand} * kLog2E, cap.exponent - 157, kCapLimit), 1);
  }
}

int64_t LogitScale::logit(int64_t score, int query_exponent) const {
  const int64_t linear =
      scale_saturating(Int128{score >> 24} * factor_, power_ + query_exponent, kLogitLimit);
  return cap_ == 0 ? linear : soft_cap(linear, cap_);
}

Weight weight_of(int64_t logit, int64_t reference) {
  const int64_t fraction = logit & 65535;
  const auto index = static_cast<size_t>(fraction >> 10);
  return {
      .mantissa = interpolate(exp2_table()[index], exp2_table()[index + 1], fraction & 1023, 10),
      .shift = reference - integer_part(logit)};
}

}  // namespace nearkv::model

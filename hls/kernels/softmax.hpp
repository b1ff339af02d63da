// Logits, weights, and the result of a row (ARITHMETIC.md sections 3 and 4.1).
#ifndef NEARKV_HLS_SOFTMAX_HPP_
#define NEARKV_HLS_SOFTMAX_HPP_

#include "kernels/number.hpp"
#include "kernels/tables.hpp"
#include "kernels/types.hpp"

namespace nearkv::kernels {

constexpr std::int64_t kNoReference = -(std::int64_t{1} << 31) + 1;
constexpr int kLargestWeightShift = 42;

/// value · 2^n by shift (floor), saturated to ±limit; |value| < 2^62, limit < 2^48.
inline std::int64_t scaled(std::int64_t value, int n, std::int64_t limit) {
#pragma HLS inline
  if (n <= 0) return clamped(floor_shift(value, -n), limit);
  const std::int64_t room = n > 62 ? 0 : limit >> n;
  if (value > room || value < -room) return value < 0 ? -limit : limit;
  return clamped<std::int64_t>(value << n, limit);
}

/// C, and the power that Eq completes to X (3.1); K of the soft cap, 0 for none (3.3).
struct LogitScale {
  std::int64_t factor;
  int power;
  std::int64_t cap;
};

/// `scale` and `soft_cap` as binary32 patterns.
inline LogitScale logit_scale(std::uint32_t scale, std::uint32_t soft_cap, int key_exponent) {
  constexpr std::int64_t kLog2E = 12102203;  // log2 e · 2^23, truncated.
  constexpr std::int64_t kCapLimit = std::int64_t{1} << 40;
  const Number number = decode_binary32(scale);
  const std::int64_t product = number.significand.to_int64() * kLog2E;
  const int extra = product >= std::int64_t{1} << 47 ? 1 : 0;
  const std::int64_t magnitude = product >> (23 + extra);
  LogitScale result;
  result.factor = number.negative ? -magnitude : magnitude;
  result.power = number.exponent.to_int() + extra + key_exponent - 411;
  const Number cap = decode_binary32(soft_cap);
  const std::int64_t of_cap =
      scaled(cap.significand.to_int64() * kLog2E, cap.exponent.to_int() - 157, kCapLimit);
  result.cap = cap.significand == 0 ? 0 : largest_of<std::int64_t>(of_cap, 1);
  return result;
}

/// ±(K · T >> 24), T by the ratio of |L| and K (3.3).
inline std::int64_t soft_capped(std::int64_t logit, std::int64_t cap) {
  constexpr std::int64_t kLastRatio = (1 << 19) - 1;
  const std::int64_t magnitude = logit < 0 ? -logit : logit;
  const ap_uint<64> ratio = (ap_uint<64>(magnitude) << 16) / ap_uint<41>(cap);
  const std::int64_t kept = ratio > kLastRatio ? kLastRatio : ratio.to_int64();
  const int index = static_cast<int>(kept >> 9);
  const std::int64_t tanh = interpolate(kTanh[index], kTanh[index + 1], kept & 511, 9);
  const std::int64_t result = (ap_int<42>(cap) * ap_int<26>(tanh) >> 24).to_int64();
  return logit < 0 ? -result : result;
}

/// L of a score (3.2, 3.3).
inline std::int64_t logit_of(const LogitScale& scale, Score score, int query_exponent) {
#pragma HLS inline
  constexpr std::int64_t kLimit = (std::int64_t{1} << 47) - 1;
  const std::int64_t top = score.to_int64() >> 24;
  const std::int64_t linear = scaled(top * scale.factor, scale.power + query_exponent, kLimit);
  return scale.cap == 0 ? linear : soft_capped(linear, scale.cap);
}

/// w · 2^(−17 − shift) (3.4); beyond kLargestWeightShift it is nothing.
struct Weight {
  ap_uint<18> mantissa;
  ap_uint<6> shift;
};

inline Weight weight_of(std::int64_t logit, std::int64_t reference) {
#pragma HLS inline
  const int fraction = static_cast<int>(logit & 65535);
  const int index = fraction >> 10;
  const std::int64_t distance = reference - (logit >> 16);
  Weight weight;
  weight.mantissa = interpolate(kExp2[index], kExp2[index + 1], fraction & 1023, 10);
  weight.shift = distance > kLargestWeightShift ? kLargestWeightShift + 1 : distance;
  return weight;
}

inline bool is_nothing(const Weight& weight) { return weight.shift > kLargestWeightShift; }

/// ±magnitude · 2^power as a binary32 pattern, to nearest even; beyond the range the largest finite
/// number, below it +0.
inline ap_uint<32> round_to_binary32(bool negative, ap_uint<64> magnitude, int power) {
  if (magnitude == 0) return 0;
  const int width = bit_width(magnitude);
  const ap_uint<64> top = magnitude << (64 - width);
  const ap_uint<24> kept = top.range(63, 40);
  const bool half = top[39] == 1;
  const bool more = ap_uint<39>(top.range(38, 0)) != 0;
  const ap_uint<25> rounded =
      ap_uint<25>(kept) + ap_uint<1>(half && (more || kept[0] == 1) ? 1 : 0);
  const int carry = rounded[24] == 1 ? 1 : 0;
  const int exponent = power + width - 24 + carry + 150;
  ap_uint<32> bits = 0;
  if (exponent < 1) return bits;
  bits[31] = negative ? 1 : 0;
  if (exponent > 254) {
    bits.range(30, 0) = 0x7f7fffff;
  } else {
    bits.range(30, 23) = exponent;
    bits.range(22, 0) = carry != 0 ? ap_uint<23>(0) : ap_uint<23>(rounded);
  }
  return bits;
}

/// The top 32 bits of a positive number, truncated, and the power of their last one.
struct TopBits {
  ap_uint<32> top;
  int power;
};

inline TopBits top_bits(ap_uint<64> magnitude) {
  const int power = bit_width(magnitude) - 32;
  TopBits result;
  result.top = power >= 0 ? magnitude >> power : magnitude << -power;
  result.power = power;
  return result;
}

/// O of one channel (4.1): acc / z · 2^(Ev − 126).
inline ap_uint<32> output_of(std::int64_t acc, std::int64_t z, int value_exponent) {
  if (acc == 0 || z == 0) return 0;
  const TopBits a = top_bits(acc < 0 ? ap_uint<64>(-acc) : ap_uint<64>(acc));
  const TopBits d = top_bits(z);
  const ap_uint<64> quotient = (ap_uint<64>(a.top) << 32) / d.top;
  return round_to_binary32(acc < 0, quotient, a.power - d.power - 32 + value_exponent - 126);
}

/// LSE (4.1), natural or base 2; −∞ where z is 0.
inline ap_uint<32> log_sum_exp_of(std::int64_t reference, std::int64_t z, bool base2) {
  constexpr std::int64_t kLn2 = 2977044471;  // ln 2 · 2^32, truncated.
  if (z == 0) return 0xff800000;
  const ap_uint<64> number = z;
  const int p = bit_width(number) - 1;
  const ap_uint<64> aligned =
      p >= 23 ? ap_uint<64>(number >> (p - 23)) : ap_uint<64>(number << (23 - p));
  const int y = aligned.range(22, 0).to_int();
  const int index = y >> 16;
  const std::int64_t log2 = (reference - 41 + p) * (std::int64_t{1} << 24) +
                            interpolate(kLog2[index], kLog2[index + 1], y & 0xffff, 16);
  const std::int64_t log = base2 ? log2 : (ap_int<64>(log2) * ap_int<33>(kLn2) >> 32).to_int64();
  return round_to_binary32(log < 0, log < 0 ? ap_uint<64>(-log) : ap_uint<64>(log), -24);
}

}  // namespace nearkv::kernels

#endif  // NEARKV_HLS_SOFTMAX_HPP_

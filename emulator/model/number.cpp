#include "number.hpp"

#include <bit>

namespace nearkv::model {

namespace {

constexpr int kSignificandBits = 24;
constexpr int kExponentOffset = 150;

// ± (magnitude >> distance). A page that an honest device wrote has no element above its declared
// exponent; a forged one must not shift by a negative count.
int32_t truncate(const Number& element, int64_t magnitude, int distance) {
  const int64_t kept = floor_shift(magnitude, std::max(distance, 0));
  return static_cast<int32_t>(element.negative ? -kept : kept);
}

}  // namespace

Number decode_binary32(uint32_t bits) {
  const bool negative = (bits >> 31) != 0;
  const int exponent = static_cast<int>(bits >> 23 & 0xff);
  const int64_t fraction = bits & 0x7fffff;
  if (exponent == 0xff) return {.negative = negative, .finite = false};
  if (exponent == 0) return {.negative = negative};
  return {.negative = negative, .exponent = exponent, .significand = fraction | 1 << 23};
}

Number normalise(bool negative, uint32_t magnitude, int power) {
  if (magnitude == 0) return {.negative = negative};
  const int shift = kSignificandBits - static_cast<int>(std::bit_width(magnitude));
  return {.negative = negative,
          .exponent = power - shift + kExponentOffset,
          .significand = int64_t{magnitude} << shift};
}

int32_t query_integer(const Number& element, int top) {
  return truncate(element, element.significand, 1 + top - element.exponent);
}

int32_t key_integer(const Number& element, int top) {
  return truncate(element, element.significand << 2, top - element.exponent);
}

int32_t value_integer(const Number& element, int top) {
  return truncate(element, element.significand, top - element.exponent);
}

}  // namespace nearkv::model

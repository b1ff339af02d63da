#include "delta4.hpp"

#include <algorithm>

namespace nearkv::model {

namespace {

constexpr int kInfinityExponent = 255;
constexpr int kLargestNibble = 15;

int exponent_of(uint16_t pattern) { return pattern >> 7 & 0xff; }
bool is_zero(uint16_t pattern) { return (pattern & 0x7fff) == 0; }

std::byte sign_and_mantissa(uint16_t pattern) {
  return static_cast<std::byte>((pattern >> 8 & 0x80) | (pattern & 0x7f));
}

std::vector<uint8_t> channel_exponents(std::span<const uint16_t> patterns, uint32_t dim) {
  std::vector<uint8_t> exponents(dim);
  for (uint32_t channel = 0; channel < dim; ++channel) {
    int largest = 0;
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      const int exponent = exponent_of(patterns[token * dim + channel]);
      if (exponent != kInfinityExponent) largest = std::max(largest, exponent);
    }
    exponents[channel] = static_cast<uint8_t>(std::max(largest - kLargestNibble, 0));
  }
  return exponents;
}

}  // namespace

std::optional<Delta4> encode_delta4(std::span<const uint16_t> patterns, uint32_t dim) {
  Delta4 form;
  form.exponents = channel_exponents(patterns, dim);
  const uint32_t row_bytes = nkv_row_bytes(NKV_ROW_FORM_DELTA4, NKV_DTYPE_BF16, dim);
  form.rows.resize(size_t{NKV_PAGE_TOKENS} * row_bytes);
  for (uint32_t element = 0; element < NKV_PAGE_TOKENS * dim; ++element) {
    const uint32_t channel = element % dim;
    const uint16_t pattern = patterns[element];
    const auto row = std::span(form.rows).subspan(size_t{element / dim} * row_bytes, row_bytes);
    const int nibble = exponent_of(pattern) - form.exponents[channel];
    const bool is_normal = exponent_of(pattern) != 0;
    if (is_normal && nibble >= 1 && nibble <= kLargestNibble) {
      row[channel] = sign_and_mantissa(pattern);
      row[dim + channel / 2] |= static_cast<std::byte>(nibble << channel % 2 * 4);
    } else if (is_zero(pattern)) {
      row[channel] = sign_and_mantissa(pattern);
    } else {
      if (form.exception_count == NKV_EXCEPTIONS) return std::nullopt;
      form.exceptions[form.exception_count++] = {static_cast<uint16_t>(element), pattern};
    }
  }
  return form;
}

uint16_t decode_delta4(std::span<const std::byte> row, uint32_t dim, uint32_t channel,
                       uint8_t exponent) {
  const auto low = std::to_integer<uint32_t>(row[channel]);
  const auto pair = std::to_integer<uint32_t>(row[dim + channel / 2]);
  const uint32_t nibble = pair >> channel % 2 * 4 & 0xf;
  const uint32_t sign = (low & 0x80) << 8;
  if (nibble == 0) return static_cast<uint16_t>(sign);
  return static_cast<uint16_t>(sign | std::min(exponent + nibble, 0xffu) << 7 | (low & 0x7f));
}

}  // namespace nearkv::model

// Sums of a page's weighted values (ARITHMETIC.md, section 13.2).
#include <algorithm>

#include "codes/page_kernels_portable.hpp"

namespace nearkv::portable {
namespace {

template <typename T>
void add_weighted(const Weighted<T>& values, std::int64_t* acc) {
  for (std::size_t at = 0; at < values.count * values.rows; ++at) {
    const T* const value = values.values[at / values.rows];
    std::int64_t* const own = acc + at % values.rows * values.dim;
    const int left = std::max(-values.shifts[at], 0);
    const int right = std::max(values.shifts[at], 0);
    for (std::size_t c = 0; c < values.dim; ++c) {
      own[c] += (std::int64_t{values.weights[at]} * value[c] * (1 << left)) >> right;
    }
  }
}

void add_signed(const std::int32_t* numbers, const std::int16_t* minus, std::size_t dim,
                std::int32_t mantissa, int power, int most, std::int64_t* acc) {
  const int left = std::max(power, 0);
  const int right = std::max(-power, 0);
  const std::int64_t largest = std::int64_t{1} << (most - left);
  for (std::size_t c = 0; c < dim; ++c) {
    const std::int64_t number = (numbers[c] ^ minus[c]) - minus[c];
    acc[c] +=
        std::clamp((number * mantissa) >> right, -largest, largest) * (std::int64_t{1} << left);
  }
}

void expand_delta4(const std::uint8_t* row, const std::uint8_t* exponents, std::size_t dim,
                   std::uint16_t* expanded) {
  for (std::size_t c = 0; c < dim; ++c) {
    const unsigned nibble = row[dim + c / 2] >> (c % 2 * 4) & 15U;
    const unsigned bits =
        unsigned{row[c]} >> 7 << 15 | (exponents[c] + nibble) << 7 | (row[c] & 0x7FU);
    expanded[c] = static_cast<std::uint16_t>(nibble == 0 ? 0 : bits);
  }
}

void align_bf16(const std::uint16_t* row, std::size_t dim, int exponent, std::int32_t* value) {
  for (std::size_t c = 0; c < dim; ++c) {
    const int own = row[c] >> 7 & 0xFF;
    const bool is_none = own == 0 || own == 0xFF;
    const int significand = is_none ? 0 : ((row[c] & 0x7F) | 0x80) << 16;
    // An element above its list's exponent is a forged page's.
    const int magnitude = significand >> std::clamp(exponent - own, 0, 31);
    value[c] = row[c] >> 15 != 0 ? -magnitude : magnitude;
  }
}

void coded_sums(const PlaneRows& values, const std::uint16_t* shares, std::size_t rows,
                std::int32_t* sums) {
  std::fill_n(sums, rows * values.dim, 0);
  for_each_refined(values, NKV_VALUE_CODE_PLANES, [&](std::size_t token, int planes) {
    for (std::size_t row = 0; row < rows; ++row) {
      const std::int32_t share = shares[row * kTokens + token];
      std::int32_t* const own = sums + row * values.dim;
      for (int plane = 0; plane < planes; ++plane) {
        const std::int32_t part = share << (NKV_VALUE_CODE_PLANES - 1 - plane);
        for (std::size_t c = 0; c < values.dim; ++c) {
          own[c] += is_set(values, plane, token, c) ? part : -part;
        }
      }
    }
  });
}

}  // namespace

void set_sum_kernels(PageKernels* kernels) {
  kernels->add_means = add_weighted<std::int8_t>;
  kernels->add_values = add_weighted<std::int32_t>;
  kernels->add_signed = add_signed;
  kernels->expand_delta4 = expand_delta4;
  kernels->align_bf16 = align_bf16;
  kernels->coded_sums = coded_sums;
}

}  // namespace nearkv::portable

#include "codes/row_codes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>

#include "codes/code_kernels.hpp"

namespace nearkv {
namespace {

constexpr int kUnitExponent = 140;  ///< One unit of a fixed number is 2^(X - 140).
constexpr int kNoLog = std::numeric_limits<int>::min();  ///< In place of a logarithm of zero.

struct FixedNumbers {
  alignas(64) std::array<std::int16_t, NKV_PAGE_TOKENS * kMaxCodeChannels> fixed;
  alignas(64) std::array<std::int16_t, kMaxCodeChannels> mean;
  alignas(64) std::array<std::int16_t, kMaxCodeChannels> minus;
  alignas(64) std::array<std::int32_t, kMaxCodeChannels> sum;
  std::array<float, NKV_MAX_HEAD_DIM> scale;
};

int gain_of(const CodedRows& rows, std::size_t channel) {
  return rows.gains.empty() ? 0 : rows.gains[channel];
}

/// X of 11.3; 0 for zeros.
int largest_exponent(const CodedRows& rows) {
  int largest = kNoLog;
  for (std::size_t c = 0; c < rows.dim; ++c) {
    const auto bits = std::bit_cast<std::uint32_t>(rows.magnitude[c]);
    if (bits == 0) continue;
    const Octaves gain = octaves(gain_of(rows, c));
    const std::uint64_t product =
        ((bits & 0x7FFFFFU) | 0x800000U) * static_cast<std::uint64_t>(gain.mantissa);
    const int exponent =
        static_cast<int>(bits >> 23) + gain.power + 11 + static_cast<int>(product >> 35);
    largest = std::max(largest, exponent);
  }
  return largest == kNoLog ? 0 : largest;
}

/// Fixed numbers of all rows, and their sums. 2^(140 - X) may not be a float; its two factors are,
/// and neither product underflows unless the result is below one.
void fix(const CodedRows& rows, int exponent, FixedNumbers* numbers) {
  const int half = (kUnitExponent - exponent) / 2;
  for (std::size_t c = 0; c < rows.dim; ++c) {
    const Octaves gain = octaves(gain_of(rows, c));
    numbers->scale[c] =
        std::ldexp(static_cast<float>(gain.mantissa), gain.power + kUnitExponent - exponent - half);
  }
  fix_rows(rows.first, rows.stride, rows.dim, std::ldexp(1.0F, half), numbers->scale.data(),
           numbers->fixed.data(), numbers->sum.data());
}

/// Means to `mean`, and as they are taken away to `numbers`; p of 11.4.
int find_means(std::size_t dim, FixedNumbers* numbers, std::int8_t* mean) {
  unsigned magnitudes = 0;
  for (std::size_t c = 0; c < dim; ++c) {
    numbers->sum[c] = (numbers->sum[c] + 32) >> 6;
    magnitudes |= static_cast<unsigned>(std::abs(numbers->sum[c]));
  }
  const int power = std::max(0, static_cast<int>(std::bit_width(magnitudes)) - 7);
  const int half = power == 0 ? 0 : 1 << (power - 1);
  for (std::size_t c = 0; c < dim; ++c) {
    const int rounded = std::min(127, (numbers->sum[c] + half) >> power);
    mean[c] = static_cast<std::int8_t>(rounded);
    numbers->mean[c] = static_cast<std::int16_t>(rounded * (1 << power));
  }
  std::fill(numbers->mean.begin() + static_cast<std::ptrdiff_t>(dim),
            numbers->mean.begin() + static_cast<std::ptrdiff_t>(padded_channels(dim)),
            std::int16_t{0});
  return power;
}

/// Factors (11.6), from logarithms in sixteenths of octaves; the tensor's top.
std::int16_t write_factors(std::span<const int, NKV_PAGE_TOKENS> logarithms, int step,
                           std::uint8_t* factors) {
  const int largest = *std::ranges::max_element(logarithms);
  const auto factor = [&](std::size_t token) {
    if (logarithms[token] == kNoLog) return 0;
    return std::max(0, kTopFactor - (largest - logarithms[token] + step / 2) / step);
  };
  for (std::size_t t = 0; t < NKV_PAGE_TOKENS; t += 2) {
    factors[t / 2] = static_cast<std::uint8_t>(factor(t) | factor(t + 1) << 4);
  }
  return static_cast<std::int16_t>(largest == kNoLog ? 0 : largest + 1);
}

}  // namespace

CodeScales encode_codes(const CodedRows& rows, unsigned sign_set, const CodeForm& form,
                        const CodePlaces& places) {
  // On the heap: a library's static TLS has no room for as much.
  thread_local const auto kept = std::make_unique<FixedNumbers>();
  FixedNumbers& numbers = *kept;
  const int exponent = largest_exponent(rows);
  fix(rows, exponent, &numbers);
  const int power = find_means(rows.dim, &numbers, places.mean);
  const auto signs = minus_signs(sign_set).first(rows.dim);
  std::ranges::fill(std::ranges::copy(signs, numbers.minus.begin()).out, numbers.minus.end(),
                    std::int16_t{0});

  const RowCoding coding{rows.dim, &form, numbers.minus.data(), numbers.mean.data()};
  std::array<RowFit, NKV_PAGE_TOKENS> fits;
  code_rows(numbers.fixed.data(), coding, places.planes.data(), &fits);
  std::array<int, NKV_PAGE_TOKENS> logarithms;
  const int unit = exponent - kUnitExponent - log2_last_block(rows.dim);
  for (std::size_t t = 0; t < NKV_PAGE_TOKENS; ++t) {
    const RowFit& fit = fits[t];
    logarithms[t] = fit.product == 0
                        ? kNoLog
                        : log2_sixteenths((std::uint64_t{fit.energy} << 8) / fit.product) - 64 +
                              16 * (unit - fit.shift);
  }
  return {static_cast<std::int16_t>(exponent - kUnitExponent + power),
          write_factors(logarithms, form.factor_step, places.factors)};
}

}  // namespace nearkv

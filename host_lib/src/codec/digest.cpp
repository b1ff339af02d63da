#include "codec/digest.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

#include "codec/ranges.hpp"
#include "nearkv/codec.hpp"
#include "page/elements.hpp"

namespace nearkv::codec {
namespace {

constexpr int kMaxDelta = 31;
constexpr int kMinBase = -128;
constexpr int kMaxBase = 127;
constexpr int kMaxCode = 255;

// Steps m * 2^s in ascending order are the binary64 numbers with three fraction bits; their leading
// bits, as an integer, number them.
constexpr int kStepFractionShift = 52 - 3;
constexpr int kStepExponentBias = 1023 + 3;

double step_size(int number) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(number) << kStepFractionShift);
}

int least_step_from(double size) {
  constexpr std::uint64_t kBelowOne = (std::uint64_t{1} << kStepFractionShift) - 1;
  return static_cast<int>((std::bit_cast<std::uint64_t>(size) + kBelowOne) >> kStepFractionShift);
}

int base_for(double low, double step) {
  return static_cast<int>(std::floor(low / (step * kBaseSteps)));
}

bool fits(double low, double high, double step) {
  const int base = base_for(low, step);
  const int greatest_code = static_cast<int>(std::floor(high / step)) - kBaseSteps * base;
  return greatest_code <= kMaxCode && base >= kMinBase && base <= kMaxBase;
}

// A step must exceed (high - low) / 256 and hold low within the base's reach; a step of at least
// (high - low) / 252 is wide enough. Neighbouring steps differ by more than 256 / 252, so the
// answer is the first candidate or the one after it. Rounding of the difference cannot pass a step
// by: a step times 256 is representable.
int smallest_step(double low, double high) {
  const double reach = static_cast<double>(-kMinBase) * kBaseSteps;
  const int first = least_step_from(std::max((high - low) / (kMaxCode + 1), std::abs(low) / reach));
  return fits(low, high, step_size(first)) ? first : first + 1;
}

}  // namespace

std::int16_t smallest_steps(std::span<const float> low, std::span<const float> high,
                            std::span<ChannelStep> steps) {
  const std::size_t dim = steps.size();
  constexpr int kNoStep = 0;
  std::array<int, kMaxBlockDim> numbers;
  int coarsest = kNoStep;
  for (std::size_t c = 0; c < dim; ++c) {
    numbers[c] = low[c] == 0 && high[c] == 0 ? kNoStep : smallest_step(low[c], high[c]);
    coarsest = std::max(coarsest, numbers[c]);
  }

  const int k_step_exponent =
      coarsest == kNoStep ? kNoStepExponent : (coarsest >> 3) - kStepExponentBias;
  const int finest = (k_step_exponent - kMaxDelta + kStepExponentBias) << 3;
  for (std::size_t c = 0; c < dim; ++c) {
    const int number = std::max(numbers[c], finest);
    steps[c].base = static_cast<std::int8_t>(base_for(low[c], step_size(number)));
    steps[c].mantissa = static_cast<std::uint8_t>(8 + (number & 7));
    steps[c].exponent = static_cast<std::int16_t>((number >> 3) - kStepExponentBias);
  }
  return static_cast<std::int16_t>(k_step_exponent);
}

std::int16_t key_digest(std::span<const std::uint16_t> rows, std::span<ChannelStep> steps) {
  const std::size_t dim = steps.size();
  std::array<Range, kMaxBlockDim> ranges;
  channel_ranges(rows, std::span(ranges).first(dim));
  std::array<float, kMaxBlockDim> low;
  std::array<float, kMaxBlockDim> high;
  for (std::size_t c = 0; c < dim; ++c) {
    low[c] = from_bf16(ranges[c].low);
    high[c] = from_bf16(ranges[c].high);
  }
  return smallest_steps(std::span(low).first(dim), std::span(high).first(dim), steps);
}

// floor(v / step) as a product with 1 / mantissa: a quotient that is not an integer differs from
// one by at least 1 / 255, the product is off by less than 2^-12, so a nudge of 2^-11 puts every
// product on the right side; only negative numbers nearer to zero than that need to be told apart.
void key_codes(std::span<const std::uint16_t> rows, std::span<const ChannelStep> steps,
               std::span<std::uint8_t> codes) {
  constexpr int kOffset = 1024;
  constexpr float kNudge = 0x1p-11F;
  constexpr std::int32_t kNegligible = 100 << 23;  // 2^-27: far below one step.
  const std::size_t dim = steps.size();
  std::array<std::uint32_t, kMaxBlockDim> exponent_shift;
  std::array<float, kMaxBlockDim> reciprocal;
  std::array<std::int32_t, kMaxBlockDim> first_cell;
  for (std::size_t c = 0; c < dim; ++c) {
    exponent_shift[c] = static_cast<std::uint32_t>(std::int32_t{steps[c].exponent}) << 23;
    reciprocal[c] = 1.0F / static_cast<float>(steps[c].mantissa);
    first_cell[c] = kBaseSteps * steps[c].base;
  }

  for (std::size_t token = 0; token < kBlockTokens; ++token) {
    const std::uint16_t* const row = rows.data() + token * dim;
    std::uint8_t* const row_codes = codes.data() + token * dim;
    for (std::size_t c = 0; c < dim; ++c) {
      const std::uint32_t exponent = row[c] & kBf16Exponent;
      const std::uint32_t magnitude = std::uint32_t{row[c] & std::uint32_t{kBf16Magnitude}} << 16;
      const std::uint32_t sign = std::uint32_t{row[c] & std::uint32_t{kBf16Sign}} << 16;
      // Scaling by a power of two on the exponent field, so that no subnormal number arises.
      const auto scaled = static_cast<std::int32_t>(magnitude - exponent_shift[c]);
      const bool normal = (exponent != 0) & (exponent != kBf16Exponent);
      const bool usable = normal & (scaled > kNegligible);
      const std::uint32_t bounded = usable ? static_cast<std::uint32_t>(scaled) : kNegligible;
      const float quotient = std::bit_cast<float>(bounded | sign) * reciprocal[c];
      const std::int32_t nudged =
          static_cast<std::int32_t>(quotient + (kOffset + kNudge)) - kOffset;
      const bool below_zero = (sign != 0) & normal & (nudged >= 0);
      row_codes[c] = static_cast<std::uint8_t>((below_zero ? -1 : nudged) - first_cell[c]);
    }
  }
}

}  // namespace nearkv::codec

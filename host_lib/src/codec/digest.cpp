#include "codec/digest.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

#include "nearkv/codec.hpp"

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

}  // namespace nearkv::codec

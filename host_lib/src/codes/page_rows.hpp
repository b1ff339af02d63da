// Numbers of pages' rows, side by side, that scans by codes need beside those of tokens. Plain
// loops, of which compilers make vectors: each file that includes this one compiles them for its
// own processor, and shares them with no other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codes/page_kernels.hpp"

namespace nearkv {
namespace {

template <typename T>
[[gnu::always_inline]] inline T bounded(T number, T least, T most) {
  const T above = number < least ? least : number;
  return above > most ? most : above;
}

bool mean_logits(const MeanLogits& means) {
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < means.count; ++i) {
    const MeanSums sums = means.sums[i];
    // |q^| < 2^23, so that the product fits.
    const std::int64_t product =
        ((std::int64_t{sums.upper} * 4096 + sums.lower) >> 1) * means.factor;
    const auto power = std::int64_t{means.powers[i]};
    const std::int64_t floor = product >> bounded<std::int64_t>(-power, 0, 63);
    // What moves up further is zero, or loud.
    const std::int64_t moved = bounded(floor, -kLoudMean, kLoudMean)
                               << bounded<std::int64_t>(power, 0, 31);
    const std::int64_t logit = bounded(moved, -kLoudMean, kLoudMean);
    const std::int64_t magnitude = logit < 0 ? -logit : logit;
    largest = magnitude > largest ? magnitude : largest;
    means.octaves[i] = static_cast<std::int32_t>(logit >> kCodeLogitBits);
    means.fractions[i] = static_cast<std::int16_t>(logit & ((1 << kCodeLogitBits) - 1));
  }
  return largest == kLoudMean;
}

void spreads(const ScoreSums* sums, std::size_t count, std::int16_t* means, std::int16_t* logs) {
  constexpr std::size_t kSteps = 15;
  const std::uint16_t* const before_steps = kernel_tables().before_steps;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t sum = sums[i].sum;
    const std::int64_t squares =
        sums[i].lower_squares + (std::int64_t{sums[i].upper_squares} << 16);
    const auto deviations = static_cast<std::int32_t>((64 * squares - sum * sum) >> 12);
    const std::int32_t difference = deviations - (sums[i].noise >> 6);
    const auto spread =
        static_cast<std::uint32_t>(difference < kLeastSpread ? kLeastSpread : difference);
    const int zeros = __builtin_clz(spread);
    const std::uint32_t top = spread << zeros >> 16;
    int log = 16 * (31 - zeros) - kVarianceUnit;
    for (std::size_t step = 0; step < kSteps; ++step) log += top > before_steps[step] ? 1 : 0;
    means[i] = static_cast<std::int16_t>(sum >> 6);
    logs[i] = static_cast<std::int16_t>(log);
  }
}

}  // namespace
}  // namespace nearkv

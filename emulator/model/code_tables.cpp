#include "code_tables.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "mix.hpp"
#include "nkv_abi.h"
#include "number.hpp"

namespace nearkv::model {

namespace {

constexpr uint32_t kWordChannels = 32;
constexpr uint32_t kSetWords = NKV_MAX_HEAD_DIM / kWordChannels;

}  // namespace

const std::array<int64_t, 16>& octave_table() {
  static const auto table = [] {
    std::array<int64_t, 16> entries;
    for (size_t i = 0; i < entries.size(); ++i) {
      entries[i] = std::llround(std::ldexp(std::exp2(static_cast<long double>(i) / 16), 11));
    }
    return entries;
  }();
  return table;
}

Octaves octaves(int sixteenths) {
  return {octave_table()[static_cast<size_t>(sixteenths & 15)], (sixteenths >> 4) - 11};
}

int64_t octaves_fixed(int sixteenths, int bits) {
  const Octaves octave = octaves(sixteenths);
  return static_cast<int64_t>(octave.power + bits >= 0
                                  ? Int128{octave.mantissa} << (octave.power + bits)
                                  : floor_shift(Int128{octave.mantissa}, -octave.power - bits));
}

int log2_sixteenths(uint64_t value) {
  static const auto thresholds = [] {
    std::array<uint64_t, 15> entries;
    for (size_t i = 0; i < entries.size(); ++i) {
      const long double exact = std::exp2(static_cast<long double>(i + 1) / 16);
      entries[i] = static_cast<uint64_t>(std::ceil(std::ldexp(exact, 15)));
    }
    return entries;
  }();
  const TopBits top = top_bits(value, 16);
  const auto reached = std::ranges::count_if(
      thresholds, [&top](uint64_t threshold) { return top.top >= threshold; });
  return 16 * (top.power + 15) + static_cast<int>(reached);
}

bool is_minus(int set, uint32_t channel) {
  const uint32_t word = static_cast<uint32_t>(set) * kSetWords + channel / kWordChannels;
  return (mix(0x9E3779B9u * (word + 1)) >> channel % kWordChannels & 1) != 0;
}

}  // namespace nearkv::model

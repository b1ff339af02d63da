#include "digest.hpp"

#include <algorithm>
#include <optional>

namespace nearkv::model {

namespace {

constexpr int kLargestDelta = 31;
constexpr int kLargestCode = 255;
constexpr int kNoStepExponent = -127;  // k_step_exponent of a page of zeros.

// floor(v / (m · 2^exponent)). Every exponent that is tried for a channel lies above the last bit
// of its significands, so the shift goes right.
int64_t cell_index(const Number& v, int m, int exponent) {
  if (v.significand == 0) return 0;
  const int64_t signed_significand = v.negative ? -v.significand : v.significand;
  return floor_divide(floor_shift(signed_significand, exponent + 150 - v.exponent), m);
}

bool is_less(const Number& a, const Number& b) {
  const auto order = [](const Number& v) {
    const int64_t magnitude = (int64_t{v.exponent} << 24) + v.significand;
    return v.negative ? -magnitude : magnitude;
  };
  return order(a) < order(b);
}

struct Range {
  Number low;
  Number high;

  [[nodiscard]] bool is_zero() const { return low.significand == 0 && high.significand == 0; }
  [[nodiscard]] int exponent() const { return std::max(low.exponent, high.exponent); }
};

Range range_of_channel(std::span<const Number> keys, uint32_t head_dim, uint32_t channel) {
  Range range{.low = keys[channel], .high = keys[channel]};
  for (uint32_t token = 1; token < NKV_PAGE_TOKENS; ++token) {
    const Number& key = keys[token * head_dim + channel];
    if (is_less(key, range.low)) range.low = key;
    if (is_less(range.high, key)) range.high = key;
  }
  return range;
}

int64_t base_of(const Range& range, int m, int exponent) {
  return floor_divide(cell_index(range.low, m, exponent), NKV_CODE_BASE_STEP);
}

bool covers(const Range& range, int m, int exponent) {
  const int64_t base = base_of(range, m, exponent);
  const int64_t highest = cell_index(range.high, m, exponent) - NKV_CODE_BASE_STEP * base;
  return highest <= kLargestCode && base >= -128 && base <= 127;
}

// The smallest step m · 2^s whose 256 cells, placed by a base, hold the range. A step below
// 2^(e − 137), e the range's exponent, puts its far end 1024 cells from zero, where no base
// reaches; so s = e − 141 is early enough to begin.
std::optional<ChannelCells> smallest_cells(const Range& range) {
  if (range.is_zero()) return std::nullopt;
  for (int exponent = range.exponent() - 141;; ++exponent) {
    for (int m = 8; m <= 15; ++m) {
      if (covers(range, m, exponent)) return ChannelCells{.m = m, .exponent = exponent};
    }
  }
}

}  // namespace

CodedKeys encode_digest(std::span<const Number> keys, uint32_t head_dim) {
  std::vector<Range> ranges(head_dim);
  std::vector<std::optional<ChannelCells>> cells(head_dim);
  std::optional<int> coarsest;
  for (uint32_t channel = 0; channel < head_dim; ++channel) {
    ranges[channel] = range_of_channel(keys, head_dim, channel);
    cells[channel] = smallest_cells(ranges[channel]);
    if (cells[channel]) coarsest = std::max(coarsest.value_or(-1000), cells[channel]->exponent);
  }

  CodedKeys coded;
  const int step_exponent = coarsest.value_or(kNoStepExponent);
  coded.step_exponent = static_cast<int16_t>(step_exponent);
  coded.digest.resize(head_dim);
  coded.codes.resize(size_t{NKV_PAGE_TOKENS} * head_dim);
  for (uint32_t channel = 0; channel < head_dim; ++channel) {
    const int finest = step_exponent - kLargestDelta;
    ChannelCells chosen = cells[channel].value_or(ChannelCells{.exponent = finest});
    if (chosen.exponent < finest) chosen = {.m = 8, .exponent = finest};
    chosen.base = static_cast<int>(base_of(ranges[channel], chosen.m, chosen.exponent));
    const int delta = step_exponent - chosen.exponent;
    coded.digest[channel] =
        static_cast<uint16_t>((chosen.base & 0xff) | (chosen.m - 8) << 8 | delta << 11);
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      const size_t element = size_t{token} * head_dim + channel;
      coded.codes[element] =
          static_cast<uint8_t>(cell_index(keys[element], chosen.m, chosen.exponent) -
                               int64_t{NKV_CODE_BASE_STEP} * chosen.base);
    }
  }
  return coded;
}

ChannelCells decode_digest(uint16_t stored, int step_exponent) {
  return {.base = static_cast<int8_t>(stored & 0xff),
          .m = 8 + (stored >> 8 & 7),
          .exponent = step_exponent - (stored >> 11)};
}

}  // namespace nearkv::model

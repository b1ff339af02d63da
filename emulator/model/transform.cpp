#include "transform.hpp"

#include <array>
#include <bit>
#include <cstddef>

#include "code_tables.hpp"

namespace nearkv::model {

namespace {

// round(2^15 · 2^(−k/2)), k = log2 of how many times the last block fits.
constexpr std::array<int64_t, 6> kBlockScales = {32768, 23170, 16384, 11585, 8192, 5793};
constexpr int kScaleBits = 15;

void hadamard(std::span<int64_t> block) {
  for (size_t half = 1; half < block.size(); half *= 2) {
    for (size_t i = 0; i < block.size(); ++i) {
      if ((i & half) != 0) continue;
      const int64_t a = block[i];
      const int64_t b = block[i + half];
      block[i] = a + b;
      block[i + half] = a - b;
    }
  }
}

// Calls `use(block, scale)` for every block of a row.
template <typename Use>
void for_each_block(std::span<int64_t> row, const Use& use) {
  const auto channels = static_cast<uint32_t>(row.size());
  const int last = log2_last_block(channels);
  size_t at = 0;
  while (at < row.size()) {
    const size_t size = std::bit_floor(row.size() - at);
    const auto ratio = static_cast<size_t>(std::countr_zero(size) - last);
    use(row.subspan(at, size), kBlockScales[ratio]);
    at += size;
  }
}

void apply_signs(std::span<int64_t> row, int set) {
  for (uint32_t channel = 0; channel < row.size(); ++channel) {
    if (is_minus(set, channel)) row[channel] = -row[channel];
  }
}

}  // namespace

int log2_last_block(uint32_t channels) { return std::countr_zero(channels); }

std::vector<int64_t> transform(std::span<const int64_t> row, int set) {
  std::vector<int64_t> result(row.begin(), row.end());
  apply_signs(result, set);
  for_each_block(result, [](std::span<int64_t> block, int64_t scale) {
    hadamard(block);
    for (int64_t& value : block) value = rounded_shift(value * scale, kScaleBits);
  });
  return result;
}

std::vector<int64_t> transpose(std::span<const int64_t> transformed, int set) {
  std::vector<int64_t> result(transformed.begin(), transformed.end());
  for_each_block(result, [](std::span<int64_t> block, int64_t scale) {
    for (int64_t& value : block) value *= scale;
    hadamard(block);
  });
  apply_signs(result, set);
  return result;
}

}  // namespace nearkv::model

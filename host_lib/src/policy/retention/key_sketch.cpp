#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "nearkv/retention.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kBits = 64;

/// A bit for each projection: whether it adds or subtracts element `i`. Steele et al.'s SplitMix64.
std::uint64_t signs(std::size_t i) {
  std::uint64_t z = (i + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

std::array<float, kBits + 1> cosines() {
  std::array<float, kBits + 1> table{};
  for (std::size_t i = 0; i <= kBits; ++i) {
    table[i] = static_cast<float>(std::cos(std::numbers::pi * static_cast<double>(i) / kBits));
  }
  return table;
}

}  // namespace

std::uint64_t key_sketch(std::span<const float> key) {
  std::array<float, kBits> sums{};
  for (std::size_t i = 0; i < key.size(); ++i) {
    const std::uint64_t plus = signs(i);
    for (std::size_t bit = 0; bit < kBits; ++bit) {
      sums[bit] += ((plus >> bit) & 1U) != 0 ? key[i] : -key[i];
    }
  }
  std::uint64_t sketch = 0;
  for (std::size_t bit = 0; bit < kBits; ++bit) {
    sketch |= static_cast<std::uint64_t>(sums[bit] > 0) << bit;
  }
  return sketch;
}

float sketched_cosine(std::uint64_t a, std::uint64_t b) {
  static const std::array<float, kBits + 1> table = cosines();
  return table[static_cast<std::size_t>(std::popcount(a ^ b))];
}

}  // namespace nearkv

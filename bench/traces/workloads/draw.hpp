// Random lengths, and hashes of made-up blocks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <vector>

#include "workload.hpp"

namespace nearkv::traces {

/// Draws from one seed, alike on all platforms, which the standard's distributions are not.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : bits_(seed) {}

  /// In (0, 1).
  double uniform() { return (static_cast<double>(bits_() >> 11) + 0.5) * 0x1p-53; }
  double exponential(double mean) { return -mean * std::log(uniform()); }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

  /// At least 1 token, of this mean but for that.
  std::uint32_t tokens(double mean, Spread spread, double sigma) {
    double value = mean;
    if (spread == Spread::kExponential) value = exponential(mean);
    if (spread == Spread::kLognormal) value = mean * std::exp(sigma * normal() - sigma * sigma / 2);
    return static_cast<std::uint32_t>(std::clamp(std::round(value), 1.0, 1e9));
  }

 private:
  std::mt19937_64 bits_;
};

/// A hash of a block of something: splitmix64's finaliser.
inline scheduler::BlockHash block_hash(std::uint64_t what, std::uint64_t index) {
  std::uint64_t bits = what * 0x9E3779B97F4A7C15 + index + 1;
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EB;
  return bits ^ bits >> 31;
}

/// Appends the hashes of `what`'s first full blocks within `tokens`, as many as are missing.
inline void name_blocks(std::uint64_t what, double tokens, std::uint64_t block_tokens,
                        std::vector<scheduler::BlockHash>* hashes) {
  const auto blocks = static_cast<std::size_t>(tokens / static_cast<double>(block_tokens));
  while (hashes->size() < blocks) hashes->push_back(block_hash(what, hashes->size()));
}

}  // namespace nearkv::traces

// Distributions of scores to rank.
#pragma once

#include <cstdint>

#include "support/seed.hpp"

namespace nearkv::rtl_test {

inline constexpr std::int64_t kLargestScore = (std::int64_t{1} << 59) - 1;

/// Where bins lie among the scores: reference and shift of a row (ARITHMETIC.md 5.1).
struct Binning {
  std::int32_t reference = 0;
  unsigned shift = 0;
};

/// Scores, with the binning that a row would have for them or a useless one.
struct ScorePattern {
  const char* name;
  Binning binning;
  std::int64_t (*score)(test::Random& random, std::int64_t i, std::int64_t count);
};

inline std::int64_t within(test::Random& random, std::int64_t half_range) {
  return std::uniform_int_distribution<std::int64_t>(-half_range, half_range)(random);
}

inline constexpr ScorePattern kScorePatterns[] = {
    {"uniform",
     {.reference = 0, .shift = 12},
     [](test::Random& random, std::int64_t, std::int64_t) {
       return within(random, kLargestScore);
     }},
    {"bell",
     {.reference = 1000, .shift = 9},
     [](test::Random& random, std::int64_t, std::int64_t) {
       std::int64_t sum = 0;
       for (int i = 0; i < 8; ++i) sum += within(random, std::int64_t{1} << 50);
       return sum;
     }},
    {"ascending",
     {.reference = 0, .shift = 10},
     [](test::Random& random, std::int64_t i, std::int64_t count) {
       return (i - count / 2) * (kLargestScore / count) + within(random, 1000);
     }},
    {"descending",
     {.reference = -7, .shift = 10},
     [](test::Random& random, std::int64_t i, std::int64_t count) {
       return (count / 2 - i) * (kLargestScore / count) + within(random, 1000);
     }},
    {"all equal",
     {.reference = 0, .shift = 3},
     [](test::Random&, std::int64_t, std::int64_t) { return std::int64_t{-123456789}; }},
    {"two values",
     {.reference = 0, .shift = 3},
     [](test::Random& random, std::int64_t, std::int64_t) {
       return random() % 4 == 0 ? std::int64_t{1} << 50 : -(std::int64_t{1} << 50);
     }},
    {"ascending in one bin",
     {.reference = 5, .shift = 20},
     [](test::Random&, std::int64_t i, std::int64_t) { return i * 77; }},
    {"ascending in the lowest bin",
     {.reference = 1 << 29, .shift = 0},
     [](test::Random&, std::int64_t i, std::int64_t) { return -kLargestScore + i; }},
    {"ascending in the highest bin",
     {.reference = -(1 << 29), .shift = 0},
     [](test::Random&, std::int64_t i, std::int64_t) { return kLargestScore - 100'000'000 + i; }},
    {"around a power of two",
     {.reference = 0, .shift = 0},
     [](test::Random& random, std::int64_t, std::int64_t) { return within(random, 300); }},
    {"extremes",
     {.reference = 0, .shift = 63},
     [](test::Random& random, std::int64_t, std::int64_t) {
       return random() % 2 == 0 ? kLargestScore : -kLargestScore - static_cast<int>(random() % 2);
     }},
    {"differs in the last bit only",
     {.reference = 3, .shift = 63},
     [](test::Random& random, std::int64_t, std::int64_t) {
       return static_cast<std::int64_t>(random() % 2);
     }},
};

}  // namespace nearkv::rtl_test

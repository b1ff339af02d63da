// Seeds of randomised tests: fixed unless NEARKV_TEST_SEED says otherwise, and told on failure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "support/environment.hpp"

namespace nearkv::test {

using Random = std::mt19937_64;

inline std::uint64_t test_seed() { return chosen_number("NEARKV_TEST_SEED", 1); }

/// Of what a test tries one by one (bits, bytes, cases) it tries every so many-th: all, unless
/// NEARKV_TEST_EVERY says otherwise, as it does for devices whose clock is simulated.
inline std::uint64_t test_every() {
  return std::max<std::uint64_t>(chosen_number("NEARKV_TEST_EVERY", 1), 1);
}

/// The generator of one case of a test.
inline Random case_random(std::uint64_t number) {
  std::seed_seq sequence{test_seed(), number};
  return Random(sequence);
}

/// For SCOPED_TRACE: how to come back to this case.
inline std::string case_name(std::uint64_t number) {
  return "case " + std::to_string(number) + " of NEARKV_TEST_SEED=" + std::to_string(test_seed());
}

/// A whole number in [low, high].
inline std::uint32_t pick(Random& random, std::uint32_t low, std::uint32_t high) {
  return std::uniform_int_distribution<std::uint32_t>(low, high)(random);
}

}  // namespace nearkv::test

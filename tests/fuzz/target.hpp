// What a fuzz target offers to both of its drivers, libFuzzer and mutation_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// Runs one input; aborts if what must hold does not.
// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer looks for this name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace nearkv::test {

/// Valid inputs to start from.
std::vector<std::vector<std::uint8_t>> corpus();

/// What the inputs are, for the table of faults.
extern const char* const mutation_fault;

/// Runs that mutation_test.cpp makes, chosen so that they take a few seconds.
extern const int mutation_runs;

}  // namespace nearkv::test

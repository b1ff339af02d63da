// Drives a fuzz target without libFuzzer: valid inputs, mutated a fixed number of times.
#include <gtest/gtest.h>

#include "support/fault_report.hpp"
#include "support/seed.hpp"
#include "target.hpp"

namespace nearkv::test {
namespace {

void mutate(std::vector<std::uint8_t>* input, Random& random) {
  for (std::uint32_t change = pick(random, 1, 4); change != 0; --change) {
    if (input->empty()) {
      input->push_back(static_cast<std::uint8_t>(random()));
      continue;
    }
    const std::size_t at = random() % input->size();
    std::uint8_t& byte = (*input)[at];
    constexpr std::uint8_t kEdges[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};
    switch (pick(random, 0, 5)) {
      case 0:
      case 1:
        byte ^= static_cast<std::uint8_t>(1U << pick(random, 0, 7));
        break;
      case 2:
        byte = static_cast<std::uint8_t>(random());
        break;
      case 3:
        byte = kEdges[pick(random, 0, 4)];
        break;
      case 4:
        input->resize(random() % 8 == 0 ? at : input->size());
        break;
      default:
        if (random() % 8 == 0)
          input->insert(input->begin() + static_cast<std::ptrdiff_t>(at), byte);
    }
  }
}

TEST(MutationTest, NoInputBreaksTheTarget) {
  const std::vector<std::vector<std::uint8_t>> valid = corpus();
  for (const std::vector<std::uint8_t>& input : valid) {
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  Random random = case_random(0);
  std::vector<std::uint8_t> input;
  for (int run = 0; run < mutation_runs; ++run) {
    // Mostly one step from a valid input, sometimes several.
    if (run % 4 != 3) input = valid[random() % valid.size()];
    mutate(&input, random);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  // A target that sees harm ends the process.
  const auto runs = static_cast<std::uint64_t>(mutation_runs);
  report_fault(mutation_fault, runs, runs, 0);
}

}  // namespace
}  // namespace nearkv::test

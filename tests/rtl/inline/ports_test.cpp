// Several engines before several slices: a slice's memory is never idle while there is work for it,
// ports get equal parts, and none waits for another one's answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <string>

#include "inline_path.hpp"

namespace nearkv::rtl_test {
namespace {

using test::Random;

constexpr std::uint64_t kRegion = std::uint64_t{1} << 30U;  // Of each port.
constexpr unsigned kLatency = 60;

/// What a port reads next.
struct Run {
  std::uint64_t address;
  unsigned beats;
};
using Pattern = std::function<Run(unsigned port)>;

/// Keeps every port full of reads, as far as their places go.
void keep_reading(InlinePath& path, const Pattern& next, std::array<Run, kPorts>* runs) {
  for (unsigned port = 0; port < kPorts; ++port) {
    Run& run = runs->at(port);
    while (path.near_reads_queued(port) < 4) {
      if (run.beats == 0) run = next(port);
      if (!path.near_read(run.address, run.beats, port)) break;
      run.beats = 0;
    }
  }
}

double reads_per_slice(const Pattern& next, const Manner& manner, unsigned read_limit,
                       std::uint64_t seed) {
  constexpr unsigned kCycles = 6000;
  InlinePath path(seed);
  path.set_manner(manner);
  path.ports().control_read_limit_i = static_cast<std::uint16_t>(read_limit);
  std::array<Run, kPorts> runs{};
  for (unsigned i = 0; i < 500 + kCycles; ++i) {
    if (i == 500) path.clear_records();
    keep_reading(path, next, &runs);
    path.cycle();
  }
  const auto [least, most] = std::ranges::minmax(path.port_answers);
  EXPECT_LE(most - least, kCycles / 20) << "ports are not alike";
  return static_cast<double>(path.near_answers) / kCycles / kSlices;
}

/// Streams, which all start in slice 0.
Pattern streams() {
  return [at = std::array<std::uint64_t, kPorts>{}](unsigned port) mutable {
    const Run run{port * kRegion + at.at(port), 16};
    at.at(port) += 16 * kBurstBytes;
    return run;
  };
}

/// Single lines anywhere.
Pattern lines(std::uint64_t seed) {
  return [random = test::case_random(seed)](unsigned port) mutable {
    return Run{port * kRegion + random() % 16384 * kBurstBytes, 1};
  };
}

/// Pages: two bursts of a header, then a body from anywhere.
Pattern pages(std::uint64_t seed) {
  return [random = test::case_random(seed), at = std::array<std::uint64_t, kPorts>{},
          left = std::array<unsigned, kPorts>{}](unsigned port) mutable {
    if (left.at(port) == 0) {
      left.at(port) = 20;
      at.at(port) = port * kRegion + random() % 4096 * 4096;
      return Run{at.at(port), 2};
    }
    --left.at(port);
    at.at(port) += 1024;
    return Run{at.at(port), 16};
  };
}

TEST(InlinePortsTest, EverySliceMovesABurstInNearlyEveryCycle) {
  const Manner manner{.latency = kLatency};
  const auto expect = [&](const char* name, const Pattern& pattern, double least) {
    const double rate = reads_per_slice(pattern, manner, 72, 1);
    std::printf("%u slices, %u ports, %s: %.3f bursts/cycle of a slice\n", kSlices, kPorts, name,
                rate);
    EXPECT_GE(rate, least) << name;
  };
  expect("streams", streams(), 0.99);
  expect("pages", pages(2), 0.95);
  expect("lines anywhere", lines(3), 0.75);
}

}  // namespace
}  // namespace nearkv::rtl_test

// Thousands of random orders of what hosts, their caches and their misfortunes do.
#include <gtest/gtest.h>

#include <cstdio>

#include "share/world.hpp"
#include "support/environment.hpp"

namespace nearkv::test {
namespace {

TEST(SharingSchedules, NeverReturnWrongBytesAndNeverLoseWhatWasPublished) {
  const std::uint64_t schedules = by_size(600, 60000);
  Coverage coverage;
  for (std::uint64_t schedule = 0; schedule < schedules; ++schedule) {
    WorldOptions options;
    options.hosts = static_cast<std::uint16_t>(2 + schedule % 3);
    World world(options, schedule);
    const std::string wrong = world.run();
    ASSERT_EQ(wrong, "") << case_name(schedule);
    coverage += world.coverage();
  }
  // Everything that can happen did.
  for (const std::uint64_t count :
       {coverage.published, coverage.removed, coverage.read, coverage.reads_under_lease,
        coverage.written, coverage.coherent_reads, coverage.power_losses, coverage.process_crashes,
        coverage.fenced_alive, coverage.adopted, coverage.borrowed, coverage.log_rounds}) {
    EXPECT_GT(count, 0U);
  }
  std::printf(
      "published %lu, removed %lu, read %lu, again under a pin %lu, written %lu,\n"
      "read coherently %lu, power lost %lu, processes killed %lu, fenced alive %lu,\n"
      "logs taken over %lu, borrowed %lu, entries in later rounds of a log %lu\n",
      coverage.published, coverage.removed, coverage.read, coverage.reads_under_lease,
      coverage.written, coverage.coherent_reads, coverage.power_losses, coverage.process_crashes,
      coverage.fenced_alive, coverage.adopted, coverage.borrowed, coverage.log_rounds);
}

}  // namespace
}  // namespace nearkv::test

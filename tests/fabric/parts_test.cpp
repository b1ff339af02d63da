// Systems beside what CXL-DMSim published of theirs (arXiv 2411.02282).
#include "fabric/link/parts.hpp"

#include <gtest/gtest.h>

#include "fabric/link/traffic.hpp"

namespace nearkv::test {
namespace {

using namespace fabric;  // NOLINT(google-build-using-namespace)

double latency_ratio(const char* name) {
  const Traffic chase{.outstanding = 1, .is_random = true, .lines = 3'000};
  return measure(find_part(name)->shape, chase).mean_ns /
         measure(find_part("local")->shape, chase).mean_ns;
}

double bandwidth_ratio(const char* name, unsigned write_percent) {
  const Traffic stream{.outstanding = 256, .write_percent = write_percent, .lines = 40'000};
  return measure(find_part(name)->shape, stream).gigabytes_per_s /
         measure(find_part("local")->shape, stream).gigabytes_per_s;
}

TEST(Parts, HaveTheLatenciesThatWerePublished) {
  EXPECT_NEAR(latency_ratio("asic"), 2.18, 0.03 * 2.18);
  EXPECT_NEAR(latency_ratio("fpga"), 2.88, 0.03 * 2.88);
}

TEST(Parts, HaveAnFpgasBandwidthWithinWhatWasPublished) {
  for (const unsigned write_percent : {0U, 33U, 50U}) {
    EXPECT_GE(bandwidth_ratio("fpga", write_percent), 0.45) << write_percent;
    EXPECT_LE(bandwidth_ratio("fpga", write_percent), 0.69) << write_percent;
  }
}

/// 0.82 to 0.83 was published: ours lies above.
TEST(Parts, HaveAnAsicsBandwidthWithinAnEighthOfWhatWasPublished) {
  for (const unsigned write_percent : {0U, 33U, 50U}) {
    EXPECT_NEAR(bandwidth_ratio("asic", write_percent), 0.825, 0.825 / 8) << write_percent;
  }
}

TEST(Parts, AreFoundByTheirNames) {
  EXPECT_EQ(parts().front().name, "local");
  EXPECT_EQ(find_part("nothing"), nullptr);
}

}  // namespace
}  // namespace nearkv::test

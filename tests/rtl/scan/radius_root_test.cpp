// nkv_radius_root: the least B with 3 B^2 >= 16 M.
#include <gtest/gtest.h>

#include <vector>

#include "Vnkv_radius_root.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

// Largest M that z = 255 and 128 weights of 1,920 make.
constexpr std::uint64_t kLargest = std::uint64_t{255} * 255 * 128 * 1920 * 1920;

TEST(RadiusRootTest, IsTheLeastBound) {
  Simulation<Vnkv_radius_root> root;
  root.reset();
  test::Random random = test::case_random(1);
  std::vector<std::uint64_t> values{0, 1, 2, 3, 11, 12, 13, kLargest - 1, kLargest};
  for (unsigned i = 0; i < 2000; ++i) values.push_back(random() % (kLargest + 1) >> random() % 45);
  // Squares and their neighbours: 16 M = 3 B^2 for B = 4 b.
  for (unsigned i = 0; i < 2000; ++i) {
    const std::uint64_t b = random() % 3'000'000;
    values.insert(values.end(), {3 * b * b - (b == 0 ? 0 : 1), 3 * b * b, 3 * b * b + 1});
  }
  for (const std::uint64_t m : values) {
    root->m_i = m;
    root->valid_i = 1;
    root.tick();
    root->valid_i = 0;
    const std::uint64_t begin = root.cycles();
    ASSERT_TRUE(root.tick_until([&] { return root->valid_o; }, 40));
    EXPECT_EQ(root.cycles() - begin, 25U);
    const std::uint64_t bound = root->bound_o;
    ASSERT_GE(3 * bound * bound, 16 * m) << m;
    if (bound > 0) {
      ASSERT_LT(3 * (bound - 1) * (bound - 1), 16 * m) << m;
    }
  }
}

TEST(RadiusRootTest, AnswersNothingThatAResetCutOff) {
  Simulation<Vnkv_radius_root> root;
  root.reset();
  root->m_i = 5;
  root->valid_i = 1;
  root.tick();
  root->valid_i = 0;
  root.ticks(5);
  root.reset();
  EXPECT_FALSE(root.tick_until([&] { return root->valid_o; }, 60));
}

}  // namespace
}  // namespace nearkv::rtl_test

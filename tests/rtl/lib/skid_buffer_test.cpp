// nkv_skid_buffer against std::deque, at every pace of both sides.
#include <gtest/gtest.h>

#include <deque>

#include "Vnkv_skid_buffer.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using SkidBuffer = Simulation<Vnkv_skid_buffer>;

TEST(SkidBufferTest, KeepsOrderAtEveryPace) {
  for (const unsigned in_pace : kPaces) {
    for (const unsigned out_pace : kPaces) {
      test::Random random = test::case_random(in_pace * 8 + out_pace);
      SkidBuffer slice;
      slice.reset();
      std::deque<std::uint8_t> expected;
      for (unsigned i = 0; i < 2000; ++i) {
        slice->in_valid_i = is_willing(random, in_pace);
        slice->in_data_i = static_cast<std::uint8_t>(random());
        slice->out_ready_i = is_willing(random, out_pace);
        slice.settle();
        ASSERT_EQ(slice->in_ready_o, expected.size() < 2);
        ASSERT_EQ(slice->out_valid_o, !expected.empty());
        if (!expected.empty()) {
          ASSERT_EQ(slice->out_data_o, expected.front());
        }
        const bool pop = slice->out_valid_o && slice->out_ready_i;
        if (slice->in_valid_i && slice->in_ready_o) expected.push_back(slice->in_data_i);
        if (pop) expected.pop_front();
        slice.tick();
      }
    }
  }
}

TEST(SkidBufferTest, PassesAWordPerCycleOneCycleLate) {
  SkidBuffer slice;
  slice.reset();
  slice->in_valid_i = 1;
  slice->out_ready_i = 1;
  for (unsigned i = 0; i < 100; ++i) {
    slice->in_data_i = static_cast<std::uint8_t>(i);
    slice.tick();
    ASSERT_TRUE(slice->out_valid_o && slice->in_ready_o);
    ASSERT_EQ(slice->out_data_o, i);
  }
}

TEST(SkidBufferTest, ReadyDoesNotFollowTheOutputWithinACycle) {
  SkidBuffer slice;
  slice.reset();
  slice->in_valid_i = 1;
  slice->out_ready_i = 0;
  slice.ticks(3);
  ASSERT_FALSE(slice->in_ready_o);
  slice->out_ready_i = 1;
  slice.settle();
  EXPECT_FALSE(slice->in_ready_o);
  slice.tick();
  EXPECT_TRUE(slice->in_ready_o);
}

}  // namespace
}  // namespace nearkv::rtl_test

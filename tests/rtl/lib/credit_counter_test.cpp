// nkv_credit_counter against a number.
#include <gtest/gtest.h>

#include <algorithm>

#include "Vnkv_credit_counter.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using CreditCounter = Simulation<Vnkv_credit_counter>;

constexpr unsigned kLimit = 20;
constexpr unsigned kLargestAmount = 7;

std::uint8_t amount_up_to(test::Random& random, unsigned most) {
  return static_cast<std::uint8_t>(test::pick(random, 0, most));
}

TEST(CreditCounterTest, CountsWhatIsFree) {
  test::Random random = test::case_random(1);
  CreditCounter counter;
  counter.reset();
  unsigned free = kLimit;
  for (unsigned i = 0; i < 5000; ++i) {
    // Phases of taking and of giving reach both ends.
    const bool taking_phase = i / 50 % 2 == 0;
    counter->take_valid_i = is_willing(random, taking_phase ? 7 : 2);
    counter->take_amount_i = amount_up_to(random, kLargestAmount);
    const unsigned back = is_willing(random, taking_phase ? 1 : 6) ? kLimit - free : 0;
    counter->give_amount_i = amount_up_to(random, std::min(back, kLargestAmount));
    counter.settle();
    ASSERT_EQ(counter->free_o, free);
    ASSERT_EQ(counter->take_ready_o, counter->take_amount_i <= free);
    if (counter->take_valid_i && counter->take_ready_o) free -= counter->take_amount_i;
    free += counter->give_amount_i;
    counter.tick();
    ASSERT_FALSE(counter->excess_o);
  }
}

TEST(CreditCounterTest, DropsAndTellsExcess) {
  CreditCounter counter;
  counter.reset();
  counter->give_amount_i = 1;
  counter.tick();
  EXPECT_EQ(counter->free_o, kLimit);
  EXPECT_TRUE(counter->excess_o);
  counter->give_amount_i = 0;
  counter.ticks(3);
  EXPECT_TRUE(counter->excess_o);
  // Until reset, whatever comes and goes meanwhile.
  counter->take_valid_i = 1;
  counter->take_amount_i = 2;
  counter.tick();
  counter->take_valid_i = 0;
  counter->give_amount_i = 2;
  counter.tick();
  EXPECT_EQ(counter->free_o, kLimit);
  EXPECT_TRUE(counter->excess_o);
  counter.reset();
  EXPECT_FALSE(counter->excess_o);
}

}  // namespace
}  // namespace nearkv::rtl_test

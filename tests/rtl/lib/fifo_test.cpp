// nkv_fifo against std::deque, at every pace of both sides.
#include <gtest/gtest.h>

#include <deque>

#include "Vnkv_fifo.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using Fifo = Simulation<Vnkv_fifo>;

constexpr unsigned kDepth = 8;

// One cycle with what stands at the inputs; checks outputs against `expected` and keeps it up.
void cycle(Fifo& fifo, std::deque<std::uint8_t>& expected) {
  fifo.settle();
  ASSERT_EQ(fifo->used_o, expected.size());
  ASSERT_EQ(fifo->in_ready_o, expected.size() < kDepth);
  ASSERT_EQ(fifo->out_valid_o, !expected.empty());
  if (!expected.empty()) {
    ASSERT_EQ(fifo->out_data_o, expected.front());
  }
  const bool push = fifo->in_valid_i && fifo->in_ready_o;
  const bool pop = fifo->out_valid_o && fifo->out_ready_i;
  if (pop) expected.pop_front();
  if (push) expected.push_back(fifo->in_data_i);
  if (fifo->clear_i) expected.clear();
  fifo.tick();
}

TEST(FifoTest, KeepsOrderAtEveryPace) {
  for (const unsigned in_pace : kPaces) {
    for (const unsigned out_pace : kPaces) {
      test::Random random = test::case_random(in_pace * 8 + out_pace);
      Fifo fifo;
      fifo.reset();
      std::deque<std::uint8_t> expected;
      for (unsigned i = 0; i < 2000; ++i) {
        fifo->in_valid_i = is_willing(random, in_pace);
        fifo->in_data_i = static_cast<std::uint8_t>(random());
        fifo->out_ready_i = is_willing(random, out_pace);
        fifo->clear_i = random() % 256 == 0;
        cycle(fifo, expected);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(FifoTest, ResetEmptiesIt) {
  Fifo fifo;
  fifo.reset();
  std::deque<std::uint8_t> expected;
  fifo->in_valid_i = 1;
  for (unsigned i = 0; i < kDepth + 2; ++i) cycle(fifo, expected);
  EXPECT_EQ(fifo->used_o, kDepth);
  fifo->in_valid_i = 0;
  fifo.reset();
  EXPECT_EQ(fifo->used_o, 0U);
  EXPECT_EQ(fifo->out_valid_o, 0U);
}

}  // namespace
}  // namespace nearkv::rtl_test

// nkv_round_robin: who is granted, and in which order.
#include <gtest/gtest.h>

#include <array>
#include <bit>

#include "Vnkv_round_robin.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using RoundRobin = Simulation<Vnkv_round_robin>;

constexpr unsigned kRequests = 5;

TEST(RoundRobinTest, ServesAllInTurn) {
  RoundRobin arbiter;
  arbiter.reset();
  arbiter->request_i = (1U << kRequests) - 1;
  arbiter->ready_i = 1;
  for (unsigned i = 0; i < 4 * kRequests; ++i) {
    arbiter.settle();
    ASSERT_TRUE(arbiter->valid_o);
    ASSERT_EQ(arbiter->index_o, i % kRequests);
    arbiter.tick();
  }
}

TEST(RoundRobinTest, GoesOnFromTheLastOneServed) {
  RoundRobin arbiter;
  arbiter.reset();
  arbiter->ready_i = 1;
  arbiter->request_i = 0b00100;
  arbiter.tick();
  arbiter->request_i = 0b10011;
  arbiter.settle();
  EXPECT_EQ(arbiter->index_o, 4U);
  arbiter.tick();
  EXPECT_EQ(arbiter->index_o, 0U);
}

TEST(RoundRobinTest, KeepsAGrantUntilItIsAccepted) {
  test::Random random = test::case_random(1);
  RoundRobin arbiter;
  arbiter.reset();
  unsigned waiting = 0;
  unsigned held = 0;
  std::array<unsigned, kRequests> others{};  // Served while this one waits.
  for (unsigned i = 0; i < 10000; ++i) {
    waiting |= static_cast<unsigned>(random()) & ((1U << kRequests) - 1);
    arbiter->request_i = static_cast<std::uint8_t>(waiting);
    arbiter->ready_i = is_willing(random, 5);
    arbiter.settle();
    ASSERT_EQ(arbiter->valid_o, waiting != 0);
    ASSERT_EQ(std::popcount(arbiter->grant_o), waiting != 0 ? 1 : 0);
    if (held != 0) {
      ASSERT_EQ(arbiter->grant_o, held);
    }
    held = arbiter->ready_i ? 0 : arbiter->grant_o;
    if (arbiter->ready_i && arbiter->valid_o) {
      const unsigned served = arbiter->index_o;
      ASSERT_EQ(arbiter->grant_o, 1U << served);
      ASSERT_NE(waiting & 1U << served, 0U);
      for (unsigned asker = 0; asker < kRequests; ++asker) {
        others[asker] = (waiting >> asker & 1) != 0 && asker != served ? others[asker] + 1 : 0;
        ASSERT_LE(others[asker], kRequests - 1);
      }
      waiting &= ~(1U << served);
    }
    arbiter.tick();
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

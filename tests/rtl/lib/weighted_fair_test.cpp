// nkv_weighted_fair: shares by weight, whoever asks.
#include <gtest/gtest.h>

#include <array>

#include "Vnkv_weighted_fair.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using WeightedFair = Simulation<Vnkv_weighted_fair>;

constexpr unsigned kTenants = 4;
constexpr unsigned kWeightBits = 4;
using PerTenant = std::array<unsigned, kTenants>;

void set_weights(WeightedFair& arbiter, const PerTenant& weights) {
  unsigned packed = 0;
  for (unsigned i = 0; i < kTenants; ++i) packed |= weights[i] << i * kWeightBits;
  arbiter->weight_i = static_cast<std::uint16_t>(packed);
}

// Grants of so many cycles, all of them taken, while these tenants ask.
PerTenant grants(WeightedFair& arbiter, unsigned askers, unsigned cycles) {
  PerTenant served{};
  arbiter->request_i = static_cast<std::uint8_t>(askers);
  arbiter->ready_i = 1;
  for (unsigned i = 0; i < cycles; ++i) {
    arbiter.settle();
    EXPECT_TRUE(arbiter->valid_o);
    ++served[arbiter->index_o];
    arbiter.tick();
  }
  return served;
}

TEST(WeightedFairTest, SharesByWeight) {
  WeightedFair arbiter;
  arbiter.reset();
  set_weights(arbiter, {1, 2, 4, 15});
  EXPECT_EQ(grants(arbiter, 0b1111, 10 * 22), (PerTenant{10, 20, 40, 150}));
}

TEST(WeightedFairTest, GivesToThoseThatAskWhatOthersDoNotUse) {
  WeightedFair arbiter;
  arbiter.reset();
  set_weights(arbiter, {1, 2, 4, 15});
  EXPECT_EQ(grants(arbiter, 0b0110, 60), (PerTenant{0, 20, 40, 0}));
  EXPECT_EQ(grants(arbiter, 0b0001, 60), (PerTenant{60, 0, 0, 0}));
}

TEST(WeightedFairTest, WeightZeroCountsAsOne) {
  WeightedFair arbiter;
  arbiter.reset();
  set_weights(arbiter, {0, 3, 0, 0});
  EXPECT_EQ(grants(arbiter, 0b0011, 40), (PerTenant{10, 30, 0, 0}));
}

TEST(WeightedFairTest, NewWeightsCountFromTheNextRound) {
  WeightedFair arbiter;
  arbiter.reset();
  set_weights(arbiter, {3, 3, 0, 0});
  EXPECT_EQ(grants(arbiter, 0b0011, 2), (PerTenant{1, 1, 0, 0}));
  set_weights(arbiter, {1, 1, 0, 0});
  EXPECT_EQ(grants(arbiter, 0b0011, 4), (PerTenant{2, 2, 0, 0}));
  arbiter.settle();
  EXPECT_TRUE(arbiter->round_o);
  EXPECT_EQ(grants(arbiter, 0b0011, 2), (PerTenant{1, 1, 0, 0}));
  arbiter.settle();
  EXPECT_TRUE(arbiter->round_o);
}

TEST(WeightedFairTest, NobodyStarvesAndGrantsHold) {
  constexpr unsigned kLargestWeight = 15;
  constexpr unsigned kBound = (kTenants - 1) * (kLargestWeight + 1);
  test::Random random = test::case_random(1);
  WeightedFair arbiter;
  arbiter.reset();
  unsigned waiting = 0;
  unsigned held = 0;
  PerTenant others{};  // Grants of others while this one waits.
  for (unsigned i = 0; i < 20000; ++i) {
    if (i % 100 == 0) arbiter->weight_i = static_cast<std::uint16_t>(random());
    waiting |= static_cast<unsigned>(random() & random()) & 0xf;
    arbiter->request_i = static_cast<std::uint8_t>(waiting);
    arbiter->ready_i = is_willing(random, 5);
    arbiter.settle();
    ASSERT_EQ(arbiter->valid_o, waiting != 0);
    if (held != 0) {
      ASSERT_EQ(arbiter->grant_o, held);
    }
    held = arbiter->ready_i ? 0 : arbiter->grant_o;
    if (arbiter->ready_i && arbiter->valid_o) {
      const unsigned served = arbiter->index_o;
      ASSERT_EQ(arbiter->grant_o & waiting, 1U << served);
      for (unsigned tenant = 0; tenant < kTenants; ++tenant) {
        others[tenant] = (waiting >> tenant & 1) != 0 && tenant != served ? others[tenant] + 1 : 0;
        ASSERT_LE(others[tenant], kBound);
      }
      waiting &= ~(1U << served);
    }
    arbiter.tick();
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

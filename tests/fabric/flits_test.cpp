// When a message has arrived that goes over a link of 68-byte flits.
#include "fabric/link/flits.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace nearkv::test {
namespace {

using namespace fabric;  // NOLINT(google-build-using-namespace)

/// A flit in 1,000 ps: 68 bytes over 17 lanes.
constexpr LinkShape kRound{.lanes = 17, .gigatransfers = 32};

TEST(Flits, TakeTheTimeOfTheirBytes) {
  EXPECT_EQ(kRound.flit(), 1000U);
  EXPECT_EQ(LinkShape{}.flit(), 1062U) << "68 bytes at 64 GB/s";
  EXPECT_EQ((LinkShape{.lanes = 8}.flit()), 2125U);
}

TEST(Flits, GoAtOnceWhenTheLinkIsIdle) {
  LinkDirection link(kRound);
  EXPECT_EQ(link.send(500, kRequestHalves), 1500U) << "one flit, mostly empty";
  EXPECT_EQ(link.send(10'250, kReadDataHalves), 12'250U) << "nine halves are two flits";
}

TEST(Flits, CarryWhatComesTogether) {
  LinkDirection link(kRound);
  std::vector<Picoseconds> arrived;
  for (int i = 0; i < 5; ++i) arrived.push_back(link.send(0, kRequestHalves));
  EXPECT_EQ(arrived, (std::vector<Picoseconds>{1000, 1000, 1000, 1000, 2000}));
}

TEST(Flits, CloseWhenTheyGo) {
  LinkDirection link(kRound);
  link.send(0, kRequestHalves);
  EXPECT_EQ(link.send(1, kRequestHalves), 2000U) << "the first has gone with one message";
  EXPECT_EQ(link.send(999, kRequestHalves), 2000U) << "the second waits behind it, and takes two";
  EXPECT_EQ(link.send(1001, kRequestHalves), 3000U);
}

TEST(Flits, CarryLinesInEightNinthsOfTheirSlots) {
  LinkDirection link(kRound);
  constexpr unsigned kLines = 8'000;
  Picoseconds last = 0;
  for (unsigned i = 0; i < kLines; ++i) last = link.send(0, kReadDataHalves);
  EXPECT_EQ(last, kLines * kReadDataHalves / 8 * kRound.flit());
}

}  // namespace
}  // namespace nearkv::test

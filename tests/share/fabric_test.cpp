// The simulated caches are as bad as real ones may be, and no worse.
#include "fabric/fabric.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using fabric::Fabric;
using fabric::HostCache;
using fabric::kLineBytes;

void store(HostCache* cache, std::uint64_t at, std::uint64_t value) {
  cache->store(at, std::as_bytes(std::span(&value, 1)));
}

std::uint64_t load(HostCache* cache, std::uint64_t at) {
  std::uint64_t value = 0;
  cache->load(at, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

struct Pair {
  explicit Pair(std::uint64_t seed) : a(&fabric, seed), b(&fabric, seed + 1) {
    a.set_calm(true);
    b.set_calm(true);
  }

  Fabric fabric{4 * kLineBytes};
  HostCache a;
  HostCache b;
};

TEST(FabricTest, AStoreIsSeenByOthersOnlyOnceItIsWrittenBack) {
  Pair hosts(1);
  store(&hosts.a, 8, 7);
  EXPECT_EQ(load(&hosts.a, 8), 7U);
  EXPECT_EQ(load(&hosts.b, 72), 0U);
  Pair flushed(1);
  store(&flushed.a, 8, 7);
  flushed.a.flush(8, 8);
  flushed.a.fence();
  EXPECT_EQ(load(&flushed.b, 8), 7U);
}

TEST(FabricTest, AFlushWithoutAFenceMayNotHaveHappened) {
  Pair hosts(1);
  store(&hosts.a, 8, 7);
  hosts.a.flush(8, 8);
  EXPECT_EQ(load(&hosts.b, 8), 0U);
}

TEST(FabricTest, ACachedLineStaysOldUntilItIsInvalidatedAndFenced) {
  Pair hosts(1);
  EXPECT_EQ(load(&hosts.b, 8), 0U);
  store(&hosts.a, 8, 7);
  hosts.a.flush(8, 8);
  hosts.a.fence();
  EXPECT_EQ(load(&hosts.b, 8), 0U);
  hosts.b.invalidate(8, 8);
  EXPECT_EQ(load(&hosts.b, 8), 0U);
  hosts.b.fence();
  EXPECT_EQ(load(&hosts.b, 8), 7U);
}

TEST(FabricTest, TwoWritersOfOneLineLoseUpdates) {
  Pair hosts(1);
  EXPECT_EQ(load(&hosts.b, 0), 0U);
  store(&hosts.a, 0, 1);
  hosts.a.flush(0, 8);
  hosts.a.fence();
  store(&hosts.b, 8, 2);
  hosts.b.flush(8, 8);
  hosts.b.fence();
  HostCache reader(&hosts.fabric, 3);
  reader.set_calm(true);
  EXPECT_EQ(load(&reader, 0), 0U) << "the whole line was written back";
  EXPECT_EQ(load(&reader, 8), 2U);
}

TEST(FabricTest, LeftAloneItWritesBackEvictsAndFetchesByItself) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 300; ++i) {
    Random random = case_random(i);
    Fabric fabric(4 * kLineBytes);
    HostCache writer(&fabric, random());
    HostCache reader(&fabric, random());
    store(&writer, 0, 1);
    store(&writer, 8, 2);
    for (int stirs = 0; stirs < 20; ++stirs) writer.stir();
    seen.insert(load(&reader, 0) * 10 + load(&reader, 8));
  }
  EXPECT_EQ(seen, (std::set<std::uint64_t>{0, 2, 10, 12})) << "words reach memory in any order";
}

TEST(FabricTest, LostPowerLeavesWhatWasFencedAndAnyOfTheRest) {
  std::set<std::uint64_t> left;
  for (std::uint64_t i = 0; i < 100; ++i) {
    Fabric fabric(4 * kLineBytes);
    HostCache cache(&fabric, case_random(i)());
    store(&cache, 0, 5);
    cache.flush(0, 8);
    cache.fence();
    store(&cache, kLineBytes, 6);
    cache.lose_power();
    EXPECT_EQ(load(&cache, 0), 5U);
    left.insert(load(&cache, kLineBytes));
  }
  EXPECT_EQ(left, (std::set<std::uint64_t>{0, 6}));
}

}  // namespace
}  // namespace nearkv::test

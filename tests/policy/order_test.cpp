// Which objects lru evicts, and in which order, beside a plain list.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <vector>

#include "support/seed.hpp"
#include "tier.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kCapacityBytes = 4000;
constexpr Key kOperations = 100000;

/// Sizes go with the key, so that they are the same when it comes back.
std::uint32_t bytes_of(Key key) { return 1 + static_cast<std::uint32_t>(key * 7919 % 100); }

/// Some keys often, most now and then, with phases in which other keys are the frequent ones.
Key random_key(Random& random, Key operation) {
  const Key phase = operation / 10000 * 50;
  switch (random() % 4) {
    case 0:
      return phase + pick(random, 0, 20);
    case 1:
      return phase + pick(random, 0, 150);
    case 2:
      return 1000 + operation;
    default:
      return pick(random, 0, 600);
  }
}

struct LruReference {
  std::list<Key> newest_first;
  std::uint64_t held_bytes = 0;

  std::vector<Key> use(Key key) {
    std::vector<Key> evicted;
    if (std::ranges::find(newest_first, key) != newest_first.end()) {
      remove(key);
    } else {
      while (held_bytes + bytes_of(key) > kCapacityBytes) {
        evicted.push_back(newest_first.back());
        remove(newest_first.back());
      }
    }
    newest_first.push_front(key);
    held_bytes += bytes_of(key);
    return evicted;
  }
  void remove(Key key) {
    newest_first.remove(key);
    held_bytes -= bytes_of(key);
  }
};

TEST(EvictionOrderTest, LruEvictsTheLeastRecentlyUsed) {
  SCOPED_TRACE(case_name(1));
  Random random = case_random(1);
  Tier tier("lru", kCapacityBytes);
  LruReference reference;
  std::size_t evictions = 0;
  std::size_t deletions = 0;
  for (Key operation = 0; operation < kOperations; ++operation) {
    const Key key = random_key(random, operation);
    if (random() % 64 == 0 && tier.holds(key)) {
      tier.remove(key, Removal::kDeleted);
      reference.remove(key);
      ++deletions;
      continue;
    }
    const std::vector<Key> evicted = tier.use(key, bytes_of(key));
    ASSERT_EQ(evicted, reference.use(key)) << "operation " << operation;
    evictions += evicted.size();
  }
  EXPECT_GT(evictions, 10000U);
  EXPECT_GT(deletions, 100U);
}

TEST(EvictionOrderTest, LruLosesTailsFirstHoweverAChainIsUsed) {
  Tier tier("lru", 6);
  for (Key key = 0; key < 3; ++key) tier.use(key, 1, key == 0 ? Tier::kNoKey : key - 1);
  for (Key key = 10; key < 13; ++key) tier.use(key, 1, key == 10 ? Tier::kNoKey : key - 1);
  // Head first, then another chain tail first.
  for (const Key key : {0U, 1U, 2U, 12U, 11U, 10U}) tier.use(key, 1);
  for (const Key key : {2U, 1U, 0U, 12U, 11U, 10U}) EXPECT_EQ(tier.evict_one(), key);
}

TEST(EvictionOrderTest, LruTakesTheChildOfALongUnusedParentForNew) {
  Tier tier("lru", 100);
  tier.use(0, 1);
  for (Key key = 1; key < 50; ++key) tier.use(key, 1);
  tier.use(1000, 1, 0);
  for (Key key = 0; key < 50; ++key) EXPECT_EQ(tier.evict_one(), key);
  EXPECT_EQ(tier.evict_one(), 1000U);
}

TEST(EvictionOrderTest, LruKeepsChainsTogetherThatAreStoredAtTheSameTime) {
  Tier tier("lru", 100);
  for (Key key = 0; key < 80; ++key) tier.use(1000 + key, 1);
  // Two requests take turns; each block's parent was stored just before the other's block.
  for (Key key = 0; key < 10; ++key) {
    for (const Key chain : {0U, 100U}) {
      tier.use(chain + key, 1, key == 0 ? Tier::kNoKey : chain + key - 1);
    }
  }
  for (int other = 0; other < 80; ++other) EXPECT_GE(tier.evict_one(), 1000U);
  for (const Key chain : {0U, 100U}) {
    for (Key key = 10; key-- > 0;) EXPECT_EQ(tier.evict_one(), chain + key);
  }
}

TEST(EvictionOrderTest, LruTakesAParentNextThatWaitedForItsLastChild) {
  const auto policy = shipped_policy("lru", 1000);
  // Parents are the oldest, then what nobody holds, then the parents' children.
  for (ObjectId id = 0; id < 60; ++id) {
    policy->insert({id, id, 1, id >= 40 ? id - 40 : kNoObject});
  }
  std::vector<bool> has_child(60);
  std::fill_n(has_child.begin(), 20, true);
  const auto evictable = [&](ObjectId id) { return !has_child[id]; };
  EXPECT_EQ(policy->victim(evictable), 20U);
  policy->erase(50, Removal::kDeleted);
  has_child[10] = false;
  EXPECT_EQ(policy->victim(evictable), 10U);
}

}  // namespace
}  // namespace nearkv::test

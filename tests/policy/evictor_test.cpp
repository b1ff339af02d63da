// Expiry, whatever the clock does.
#include "policy/evictor.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "support/seed.hpp"
#include "tier.hpp"

namespace nearkv::test {
namespace {

Evictor lru_evictor() { return Evictor(shipped_policy("lru", 1U << 20)); }

TEST(EvictorTest, ExpiredObjectsGoFirst) {
  Evictor evictor = lru_evictor();
  evictor.insert({.id = 0, .bytes = 1});
  evictor.insert({.id = 1, .bytes = 1, .expires_s = 200});
  evictor.insert({.id = 2, .bytes = 1, .expires_s = 100});
  evictor.insert({.id = 3, .bytes = 1});
  EXPECT_EQ(evictor.victim(99, any_object), 0U);
  EXPECT_EQ(evictor.expired(99, any_object), std::nullopt);
  EXPECT_EQ(evictor.victim(100, any_object), 2U);
  EXPECT_EQ(evictor.victim(1000, any_object), 2U);
  evictor.erase(2, Removal::kEvicted);
  EXPECT_EQ(evictor.victim(1000, any_object), 1U);
  evictor.erase(1, Removal::kDeleted);
  EXPECT_EQ(evictor.victim(1000, any_object), 0U);
}

TEST(EvictorTest, AClockThatJumpsBackExpiresNothing) {
  Evictor evictor = lru_evictor();
  evictor.insert({.id = 0, .bytes = 1});
  evictor.insert({.id = 1, .bytes = 1, .expires_s = 100});
  EXPECT_EQ(evictor.victim(150, any_object), 1U);
  EXPECT_EQ(evictor.victim(0, any_object), 0U);
  EXPECT_EQ(evictor.victim(99, any_object), 0U);
  EXPECT_EQ(evictor.victim(100, any_object), 1U);
}

TEST(EvictorTest, AReusedIdHasItsOwnExpiryOnly) {
  Evictor evictor = lru_evictor();
  evictor.insert({.id = 0, .bytes = 1, .expires_s = 100});
  evictor.erase(0, Removal::kDeleted);
  evictor.insert({.id = 0, .bytes = 1});
  evictor.insert({.id = 1, .bytes = 1, .expires_s = 300});
  EXPECT_EQ(evictor.expired(200, any_object), std::nullopt);
  EXPECT_EQ(evictor.expired(300, any_object), 1U);
}

TEST(EvictorTest, ARenamedObjectKeepsItsExpiry) {
  Evictor evictor = lru_evictor();
  evictor.insert({.id = 0, .bytes = 1, .expires_s = 100});
  evictor.insert({.id = 1, .bytes = 1});
  evictor.rename(0, 7, {});
  evictor.rename(1, 0, {});
  EXPECT_EQ(evictor.expired(99, any_object), std::nullopt);
  EXPECT_EQ(evictor.expired(100, any_object), 7U);
  evictor.erase(7, Removal::kEvicted);
  EXPECT_EQ(evictor.expired(1000, any_object), std::nullopt);
  EXPECT_EQ(evictor.victim(1000, any_object), 0U);
}

TEST(EvictorTest, HeldExpiredObjectsAreAskedAboutBoundedly) {
  Evictor evictor = lru_evictor();
  constexpr ObjectId kObjects = 10000;
  for (ObjectId id = 0; id < kObjects; ++id) {
    evictor.insert({.id = id, .bytes = 1, .expires_s = 100});
  }
  std::size_t asked = 0;
  const auto only_last = [&](ObjectId id) {
    ++asked;
    return id == kObjects - 1;
  };
  std::size_t calls = 0;
  std::optional<ObjectId> found;
  while (!found && calls < 1000) {
    asked = 0;
    found = evictor.expired(100, only_last);
    EXPECT_LE(asked, 64U);
    ++calls;
  }
  EXPECT_EQ(found, kObjects - 1);
  EXPECT_LE(calls, kObjects / 64 + 1);
}

TEST(EvictorTest, AHeldExpiredObjectIsAskedAboutOnceACall) {
  Evictor evictor = lru_evictor();
  for (ObjectId id = 0; id < 3; ++id) evictor.insert({.id = id, .bytes = 1, .expires_s = 100});
  for (int call = 0; call < 5; ++call) {
    std::set<ObjectId> asked;
    const auto hold = [&](ObjectId id) { return !asked.insert(id).second; };
    EXPECT_EQ(evictor.expired(100, hold), std::nullopt);
    EXPECT_EQ(asked.size(), 3U);
  }
}

TEST(EvictorTest, AgreesWithAScanOfAllExpiries) {
  SCOPED_TRACE(case_name(0));
  Random random = case_random(0);
  Evictor evictor = lru_evictor();
  std::map<ObjectId, std::uint64_t> expires;
  std::set<ObjectId> held;
  std::uint64_t now_s = 1000;
  std::size_t expired = 0;
  for (int operation = 0; operation < 100000; ++operation) {
    const ObjectId id = pick(random, 0, 49);
    if (!expires.contains(id)) {
      const std::uint64_t expires_s =
          random() % 3 == 0 ? kNeverExpires : now_s + pick(random, 0, 100);
      evictor.insert({.id = id, .fingerprint = id, .bytes = 1, .expires_s = expires_s});
      expires[id] = expires_s;
      if (random() % 4 == 0) held.insert(id);
    } else if (random() % 4 == 0) {
      evictor.hit(id);
    } else if (random() % 4 == 0) {
      evictor.erase(id, Removal::kDeleted);
      expires.erase(id);
      held.erase(id);
    }
    // The clock ticks, and now and then jumps to anywhere.
    now_s = random() % 1000 == 0 ? pick(random, 0, 4000) : now_s + random() % 2;
    const auto found =
        evictor.expired(now_s, [&](ObjectId asked) { return !held.contains(asked); });
    bool any_due = false;
    for (const auto& [other, when] : expires) any_due |= when <= now_s && !held.contains(other);
    ASSERT_EQ(found.has_value(), any_due);
    if (!found) continue;
    ASSERT_LE(expires.at(*found), now_s);
    ASSERT_FALSE(held.contains(*found));
    evictor.erase(*found, Removal::kEvicted);
    expires.erase(*found);
    ++expired;
    ASSERT_EQ(evictor.bytes(), expires.size());
  }
  EXPECT_GT(expired, 1000U);
}

}  // namespace
}  // namespace nearkv::test

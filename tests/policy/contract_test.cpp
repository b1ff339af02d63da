// What every policy promises, whatever its order.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "support/seed.hpp"
#include "tier.hpp"

namespace nearkv::test {
namespace {

class EvictionContractTest : public testing::TestWithParam<std::string> {};

struct Known {
  std::uint32_t bytes = 0;  ///< None: no such object.
  bool held = false;
};

TEST_P(EvictionContractTest, HoldsThroughRandomOperations) {
  constexpr ObjectId kIds = 400;
  constexpr std::uint64_t kCapacityBytes = kIds * 1024;
  for (std::uint64_t number = 0; number < 4; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    const auto policy = shipped_policy(GetParam(), kCapacityBytes);
    std::vector<Known> objects(kIds);
    std::uint64_t bytes = 0;
    bool asks_of_unknown = false;
    const auto evictable = [&](ObjectId id) {
      asks_of_unknown |= id >= kIds || objects[id].bytes == 0;
      return !objects[id].held;
    };
    const auto forget = [&](ObjectId id, Removal removal) {
      bytes -= std::exchange(objects[id], Known()).bytes;
      policy->erase(id, removal);
    };
    // The more are held, the harder it is to find one that may leave.
    const std::uint32_t held_percent = pick(random, 0, 95);
    for (int operation = 0; operation < 100000; ++operation) {
      const ObjectId id = pick(random, 0, kIds - 1);
      Known& object = objects[id];
      if (object.bytes == 0) {
        object = {pick(random, 1, 4096), pick(random, 1, 100) <= held_percent};
        const ObjectId parent = random() % 2 == 0 ? pick(random, 0, kIds - 1) : kNoObject;
        policy->insert({id, random() % (3 * kIds), object.bytes, parent});
        bytes += object.bytes;
      } else if (random() % 8 == 0) {
        object.held = !object.held;
      } else if (random() % 2 == 0) {
        policy->hit(id);
      } else if (random() % 8 == 0) {
        forget(id, Removal::kDeleted);
      }
      ASSERT_EQ(policy->bytes(), bytes);
      if (bytes <= kCapacityBytes && random() % 16 != 0) continue;
      const auto victim = policy->victim(evictable);
      ASSERT_FALSE(asks_of_unknown);
      if (!victim) {
        for (const Known& known : objects) ASSERT_TRUE(known.bytes == 0 || known.held);
        continue;
      }
      ASSERT_GT(objects.at(*victim).bytes, 0U);
      ASSERT_FALSE(objects[*victim].held);
      // A store may fail to evict what it asked for.
      if (random() % 4 != 0) forget(*victim, Removal::kEvicted);
    }
  }
}

TEST_P(EvictionContractTest, EvictsEveryObjectOnceAndThenNone) {
  const auto policy = shipped_policy(GetParam(), 1000);
  for (ObjectId id = 0; id < 1000; ++id) policy->insert({id, id, 1});
  for (ObjectId id = 0; id < 1000; id += 3) policy->hit(id);
  std::set<ObjectId> gone;
  while (const auto victim = policy->victim(any_object)) {
    ASSERT_TRUE(gone.insert(*victim).second);
    policy->erase(*victim, Removal::kEvicted);
  }
  EXPECT_EQ(gone.size(), 1000U);
  EXPECT_EQ(policy->bytes(), 0U);
}

TEST_P(EvictionContractTest, TailOfAChainLeavesBeforeItsHead) {
  const auto policy = shipped_policy(GetParam(), 1000);
  for (ObjectId id = 0; id < 100; ++id) {
    policy->insert({id, id, 10, id == 0 ? kNoObject : id - 1});
  }
  for (ObjectId tail = 100; tail-- > 0;) {
    ASSERT_EQ(policy->victim(any_object), tail);
    policy->erase(tail, Removal::kEvicted);
  }
}

TEST_P(EvictionContractTest, PassesOverParentsWhileTheirChildrenLive) {
  SCOPED_TRACE(case_name(0));
  Random random = case_random(0);
  const auto policy = shipped_policy(GetParam(), 1000);
  std::map<ObjectId, ObjectId> parent_of;
  std::map<ObjectId, int> children;
  for (ObjectId id = 0; id < 1000; ++id) {
    const ObjectId parent = id < 10 ? kNoObject : pick(random, 0, id - 1);
    policy->insert({id, id, 1, parent});
    parent_of[id] = parent;
    ++children[parent];
  }
  for (std::size_t left = 1000; left > 0; --left) {
    const auto leaf = policy->victim([&](ObjectId id) { return children[id] == 0; });
    ASSERT_TRUE(leaf);
    ASSERT_EQ(children[*leaf], 0);
    --children[parent_of[*leaf]];
    policy->erase(*leaf, Removal::kEvicted);
  }
}

TEST_P(EvictionContractTest, AsksAboutHeldObjectsAFewTimesEach) {
  constexpr ObjectId kHeld = 50000;
  constexpr ObjectId kFree = 50000;
  const auto policy = shipped_policy(GetParam(), kHeld + kFree);
  // Held ones are the oldest, where each search begins.
  for (ObjectId id = 0; id < kHeld + kFree; ++id) policy->insert({id, id, 1});
  std::size_t asked = 0;
  const auto evictable = [&](ObjectId id) {
    ++asked;
    return id >= kHeld;
  };
  for (ObjectId evicted = 0; evicted < kFree; ++evicted) {
    const auto victim = policy->victim(evictable);
    ASSERT_TRUE(victim);
    policy->erase(*victim, Removal::kEvicted);
  }
  EXPECT_LE(asked, kHeld + 6 * kFree);
  asked = 0;
  EXPECT_FALSE(policy->victim(evictable));
  EXPECT_LE(asked, 2048U) << "all are held, which it knows already";
}

TEST_P(EvictionContractTest, AsksOnceOrTwiceAboutAnObjectThatIsHeldAlone) {
  const auto policy = shipped_policy(GetParam(), 100);
  policy->insert({0, 0, 1});
  for (int call = 0; call < 3; ++call) {
    int asked = 0;
    EXPECT_FALSE(policy->victim([&](ObjectId) { return ++asked < 0; }));
    EXPECT_LE(asked, 2);
  }
}

TEST_P(EvictionContractTest, FindsWhatIsReleased) {
  const auto policy = shipped_policy(GetParam(), 5000);
  for (ObjectId id = 0; id < 5000; ++id) policy->insert({id, id, 1});
  EXPECT_FALSE(policy->victim([](ObjectId) { return false; }));
  const auto only = [](ObjectId id) { return id == 4321; };
  std::optional<ObjectId> victim;
  for (int calls = 0; calls < 10 && !victim; ++calls) victim = policy->victim(only);
  EXPECT_EQ(victim, 4321U);
}

TEST_P(EvictionContractTest, ForgetsDeletedObjects) {
  const auto policy = shipped_policy(GetParam(), 100);
  for (std::uint64_t round = 0; round < 100; ++round) {
    for (ObjectId id = 0; id < 50; ++id) policy->insert({id, round * 50 + id, 2});
    for (ObjectId id = 0; id < 50; ++id) policy->erase(id, Removal::kDeleted);
  }
  EXPECT_EQ(policy->bytes(), 0U);
  EXPECT_FALSE(policy->victim(any_object));
}

TEST_P(EvictionContractTest, ARenamedObjectKeepsItsPlace) {
  constexpr ObjectId kNames = 300;
  constexpr std::uint64_t kCapacityBytes = kNames * 256;
  for (std::uint64_t number = 0; number < 4; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    // The same objects by names that stay, and by ids of which some change.
    const auto plain = shipped_policy(GetParam(), kCapacityBytes);
    const auto renaming = shipped_policy(GetParam(), kCapacityBytes);
    std::vector<ObjectId> id_of(kNames);
    std::map<ObjectId, ObjectId> name_of;
    std::map<ObjectId, std::set<ObjectId>> children;  // By name.
    std::vector<bool> held(kNames);
    ObjectId next = 0;
    std::size_t renamed = 0;
    std::size_t evicted = 0;
    const auto forget = [&](ObjectId name, Removal removal) {
      plain->erase(name, removal);
      renaming->erase(id_of[name], removal);
      name_of.erase(id_of[name]);
    };
    for (ObjectId name = 0; evicted < 2 * kNames; ++name) {
      while (plain->bytes() + 512 > kCapacityBytes) {
        const auto victim = plain->victim([&](ObjectId asked) { return !held[asked]; });
        const auto same = renaming->victim([&](ObjectId id) { return !held[name_of.at(id)]; });
        ASSERT_EQ(victim.has_value(), same.has_value());
        if (!victim) {
          held.assign(held.size(), false);
          continue;
        }
        ASSERT_EQ(name_of.at(*same), *victim) << evicted << " evicted before";
        forget(*victim, Removal::kEvicted);
        ++evicted;
      }
      // A name stands for one object only: what comes back to a policy has another.
      id_of.resize(std::max<std::size_t>(id_of.size(), name + 1));
      held.resize(id_of.size());
      held[name] = random() % 8 == 0;
      id_of[name] = next++;
      name_of[id_of[name]] = name;
      Entry entry{name, random() % 1000, pick(random, 1, 512)};
      const ObjectId parent = name == 0 ? 0 : name - std::min(name, pick(random, 1, 9));
      if (random() % 2 == 0 && name_of.contains(id_of[parent]) &&
          name_of[id_of[parent]] == parent) {
        entry.parent = parent;
        children[parent].insert(name);
      }
      plain->insert(entry);
      entry.id = id_of[name];
      if (entry.parent != kNoObject) entry.parent = id_of[parent];
      renaming->insert(entry);
      for (int operation = 0; operation < 4; ++operation) {
        const auto known = std::next(
            name_of.begin(), pick(random, 0, static_cast<std::uint32_t>(name_of.size() - 1)));
        const ObjectId other = known->second;
        if (random() % 2 == 0) {
          plain->hit(other);
          renaming->hit(id_of[other]);
          continue;
        }
        std::vector<ObjectId> its_children;
        for (const ObjectId child : children[other]) {
          if (name_of.contains(id_of[child]) && name_of[id_of[child]] == child) {
            its_children.push_back(id_of[child]);
          }
        }
        renaming->rename(id_of[other], next, its_children);
        name_of.erase(id_of[other]);
        id_of[other] = next++;
        name_of[id_of[other]] = other;
        ++renamed;
      }
      ASSERT_EQ(renaming->bytes(), plain->bytes());
    }
    EXPECT_GT(renamed, 500U);
  }
}

std::vector<std::string> shipped_names() {
  std::vector<std::string> names;
  for (const auto& named : shipped_eviction_policies()) names.push_back(named.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Shipped, EvictionContractTest, testing::ValuesIn(shipped_names()),
                         [](const auto& policy) { return policy.param; });

TEST(EvictionPolicyNamesTest, UnknownNameIsRefusedWithTheKnownOnes) {
  std::unique_ptr<EvictionPolicy> policy;
  std::string reason;
  EXPECT_EQ(make_eviction_policy("mru", 1, {}, &policy, &reason), Status::kBadArgument);
  EXPECT_EQ(reason, "no eviction policy 'mru'; there are: lru, chain_lhd");
  EXPECT_EQ(make_eviction_policy("lru", 0, {}, &policy, &reason), Status::kBadArgument);
}

/// Evicts what came last.
class NewestFirst final : public EvictionPolicy {
 public:
  void insert(const Entry& entry) override { entries_.push_back(entry); }
  void hit(ObjectId /*id*/) override {}
  void erase(ObjectId id, Removal /*removal*/) override {
    std::erase_if(entries_, [id](const Entry& entry) { return entry.id == id; });
  }
  void rename(ObjectId from, ObjectId to, std::span<const ObjectId> /*children*/) override {
    for (Entry& entry : entries_) {
      if (entry.id == from) entry.id = to;
    }
  }
  std::optional<ObjectId> victim(const Evictable& evictable) override {
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
      if (evictable(entry->id)) return entry->id;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::uint64_t bytes() const override {
    std::uint64_t sum = 0;
    for (const Entry& entry : entries_) sum += entry.bytes;
    return sum;
  }

 private:
  std::vector<Entry> entries_;
};

TEST(EvictionPolicyNamesTest, UsersOwnPolicyComesFirst) {
  const std::vector<NamedEvictionPolicy> own = {
      {"lru", [](std::uint64_t) { return std::make_unique<NewestFirst>(); }},
      {"none", [](std::uint64_t) { return nullptr; }}};
  std::unique_ptr<EvictionPolicy> policy;
  std::string reason;
  ASSERT_EQ(make_eviction_policy("lru", 100, own, &policy, &reason), Status::kOk);
  for (ObjectId id = 0; id < 3; ++id) policy->insert({id, id, 1});
  EXPECT_EQ(policy->victim(any_object), 2U);
  EXPECT_EQ(make_eviction_policy("none", 100, own, &policy, &reason), Status::kBadArgument);
  EXPECT_EQ(reason, "the factory of eviction policy 'none' made none");
}

}  // namespace
}  // namespace nearkv::test

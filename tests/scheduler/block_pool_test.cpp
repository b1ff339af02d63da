// The pool's blocks against a plain account of them.
#include "block_pool.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "policy/policies.hpp"
#include "support/seed.hpp"

namespace nearkv::scheduler::test {
namespace {

using nearkv::test::case_random;
using nearkv::test::pick;

TEST(BlockPool, AHashThatIsHeldFreesThePrivateBlock) {
  BlockPool pool(4, make_lru(1));
  std::vector<ObjectId> first;
  std::vector<ObjectId> second;
  ASSERT_TRUE(pool.take(4));
  const std::vector<BlockHash> hashes{7};
  pool.publish(hashes, &first);
  pool.publish(hashes, &second);
  EXPECT_EQ(first, second);
  EXPECT_EQ(pool.available_blocks(), 1U);
  pool.unpin(&first);
  EXPECT_EQ(pool.available_blocks(), 1U) << "the second still pins it";
  pool.unpin(&second);
  EXPECT_EQ(pool.available_blocks(), 2U);
}

TEST(BlockPool, TakesNothingIfNotAll) {
  BlockPool pool(4, make_lru(1));
  ASSERT_TRUE(pool.take(3));
  EXPECT_FALSE(pool.take(2));
  EXPECT_EQ(pool.free_blocks(), 1U);
}

TEST(BlockIds, RandomUse) {
  auto random = case_random(0);
  BlockIds ids;
  std::map<BlockHash, ObjectId> held;
  for (int operation = 0; operation < 200'000; ++operation) {
    // Numbers in a row, and such whose low halves are equal.
    const BlockHash hash = pick(random, 0, 2'000) | std::uint64_t{pick(random, 0, 3)} << 32;
    const auto found = held.find(hash);
    ASSERT_EQ(ids.find(hash), found == held.end() ? kNoObject : found->second);
    if (found == held.end()) {
      held[hash] = ids.add(hash);
    } else {
      ids.remove(found->second);
      held.erase(found);
    }
    ASSERT_EQ(ids.size(), held.size());
  }
  std::set<ObjectId> numbers;
  for (const auto& [hash, id] : held) numbers.insert(id);
  EXPECT_EQ(numbers.size(), held.size());
  EXPECT_LT(*numbers.rbegin(), 8'004U) << "numbers are dense";
}

TEST(BlockPool, RandomUse) {
  constexpr std::uint32_t kCapacity = 50;
  auto random = case_random(0);
  BlockPool pool(kCapacity, make_lru(1));
  struct User {
    std::vector<BlockHash> hashes;
    std::vector<ObjectId> blocks;
    std::uint32_t private_blocks = 0;
  };
  std::vector<User> users;
  for (int operation = 0; operation < 50'000; ++operation) {
    if (pick(random, 0, 2) > 0) {
      User user;
      const std::uint32_t length = pick(random, 1, 8);
      const std::uint64_t prefix = pick(random, 1, 12);
      for (std::uint32_t i = 0; i < length; ++i) user.hashes.push_back(prefix << 8 | i);
      const std::uint32_t held = pool.match(user.hashes);
      pool.pin(user.hashes, held, &user.blocks);
      const std::uint32_t missing = length - held + pick(random, 0, 2);
      if (pool.take(missing)) {
        pool.publish(std::span(user.hashes).subspan(held), &user.blocks);
        user.private_blocks = missing - (length - held);
        EXPECT_EQ(pool.match(user.hashes), length);
        users.push_back(user);
      } else {
        EXPECT_LT(pool.available_blocks(), missing);
        pool.unpin(&user.blocks);
      }
    } else if (!users.empty()) {
      const std::size_t index = pick(random, 0, static_cast<std::uint32_t>(users.size() - 1));
      pool.unpin(&users[index].blocks);
      pool.give_back(users[index].private_blocks);
      users.erase(users.begin() + static_cast<std::ptrdiff_t>(index));
    }
    std::map<BlockHash, ObjectId> pinned;
    std::uint32_t private_blocks = 0;
    for (const User& user : users) {
      private_blocks += user.private_blocks;
      for (std::size_t i = 0; i < user.hashes.size(); ++i) {
        const auto [place, is_new] = pinned.emplace(user.hashes[i], user.blocks[i]);
        ASSERT_EQ(place->second, user.blocks[i]) << "one prefix in two places";
      }
    }
    ASSERT_EQ(pool.available_blocks(), kCapacity - private_blocks - pinned.size());
    ASSERT_LE(pool.free_blocks(), pool.available_blocks());
  }
}

}  // namespace
}  // namespace nearkv::scheduler::test

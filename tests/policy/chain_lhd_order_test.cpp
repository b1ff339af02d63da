// The learning policy against a plain reading of it, with chains, and with lists that are searched.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>

#include "policy/reuse_density.hpp"
#include "support/seed.hpp"
#include "tier.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kCapacityBytes = 20000;

enum Class : std::uint8_t { kLast, kOpening, kExtension, kReused, kClasses };

std::uint32_t bytes_of(Key key) { return 1 + static_cast<std::uint32_t>(key * 7919 % 100); }

/// Objects and ghosts are told apart by the lists that they are in.
struct ChainLhdReference {
  struct Block {
    Class in = kLast;
    Class kind = kOpening;
    unsigned uses = 0;
    std::uint64_t placed_at = 0;
    std::uint64_t born_at = 0;
    Key parent = Tier::kNoKey;
    std::uint64_t parent_born_at = 0;  ///< A parent that comes back is another object.
  };
  std::map<Key, Block> held;
  std::map<Key, Block> ghosts;
  std::list<Key> lists[kClasses];  ///< Newest first.
  std::list<Key> forgotten_next;   ///< Ghosts, the oldest first.
  ReuseDensity density{kClasses, kCapacityBytes};
  std::uint64_t clock = 0;

  template <typename Keys>
  static std::uint64_t sum(const Keys& blocks) {
    std::uint64_t bytes = 0;
    for (const auto& [key, block] : blocks) bytes += bytes_of(key);
    return bytes;
  }

  void leave(Key key) { lists[held.at(key).in].remove(key); }

  void enter(Key key, Class its_class) {
    Block& block = held.at(key);
    auto& list = lists[its_class];
    leave(key);
    auto at = list.begin();
    const auto parent = held.find(block.parent);
    if (parent != held.end() && parent->second.born_at == block.parent_born_at &&
        parent->second.in == its_class &&
        clock - parent->second.placed_at <= sum(held) / 8 + bytes_of(key)) {
      at = std::next(std::find(list.begin(), list.end(), block.parent));
    }
    list.insert(at, key);
    block.in = its_class;
    block.placed_at = clock;
    density.wait(its_class, bytes_of(key));
  }

  Key evict_one() {
    Key least = Tier::kNoKey;
    double least_density = 0;
    for (const auto& list : lists) {
      if (list.empty()) continue;
      const Block& oldest = held.at(list.back());
      const double promise = density.of(oldest.in, oldest.placed_at);
      if (least == Tier::kNoKey || promise < least_density ||
          (promise == least_density && oldest.placed_at < held.at(least).placed_at)) {
        least = list.back();
        least_density = promise;
      }
    }
    leave(least);
    ghosts[least] = held.at(least);
    held.erase(least);
    forgotten_next.push_back(least);
    while (sum(ghosts) > 4 * kCapacityBytes) {
      const Key key = forgotten_next.front();
      const Block& ghost = ghosts.at(key);
      density.given_up(ghost.in, ghost.placed_at, bytes_of(key));
      ghosts.erase(key);
      forgotten_next.pop_front();
    }
    return least;
  }

  std::vector<Key> use(Key key, Key parent_key) {
    std::vector<Key> evicted;
    while (!held.contains(key) && sum(held) + bytes_of(key) > kCapacityBytes) {
      evicted.push_back(evict_one());
    }
    clock += bytes_of(key);
    density.advance(clock);
    if (const auto found = held.find(key); found != held.end()) {
      density.reused(found->second.in, found->second.placed_at, bytes_of(key));
      ++found->second.uses;
      enter(key, kReused);
      return evicted;
    }
    Block block;
    block.born_at = clock;
    if (const auto ghost = ghosts.find(key); ghost != ghosts.end()) {
      density.reused(ghost->second.in, ghost->second.placed_at, bytes_of(key));
      block.uses = ghost->second.uses;
      ghosts.erase(ghost);
      forgotten_next.remove(key);
    }
    ++block.uses;
    if (const auto parent = held.find(parent_key); parent != held.end()) {
      block.parent = parent_key;
      block.parent_born_at = parent->second.born_at;
      if (parent->second.uses == 1) block.kind = parent->second.kind;
      if (parent->second.uses > 1 && parent->second.uses < 8) block.kind = kExtension;
      if (parent->second.in == kLast) {
        density.withdrawn(kLast, parent->second.placed_at, bytes_of(parent_key));
        enter(parent_key, parent->second.kind);
      }
    }
    held[key] = block;
    lists[kLast].push_front(key);
    enter(key, block.uses > 1 ? kReused : kLast);
    return evicted;
  }

  void remove(Key key) {
    const Block& block = held.at(key);
    density.withdrawn(block.in, block.placed_at, bytes_of(key));
    leave(key);
    held.erase(key);
  }
};

TEST(ChainLhdOrderTest, EvictsWhatAPlainReadingOfItEvicts) {
  SCOPED_TRACE(case_name(1));
  Random random = case_random(1);
  // A block may take another for its parent that has the parent's record now: so none has.
  Tier tier("chain_lhd", kCapacityBytes, Tier::Records::kUsedOnce);
  ChainLhdReference reference;
  std::size_t evictions = 0;
  std::size_t deletions = 0;
  for (Key request = 0; request < 12000; ++request) {
    // A chain: of a few or many, grown by some blocks at times, half with a last block of its own.
    const Key chain = random() % 2 == 0 ? pick(random, 0, 30) : pick(random, 0, 400);
    const Key length = 1 + (chain + request / 3000) % 5;
    Key parent = Tier::kNoKey;
    const Key blocks = length + random() % 2;
    for (Key block = 0; block < blocks; ++block) {
      const Key key = block == length ? 1000000 + request : chain * 10 + block;
      const std::vector<Key> evicted = tier.use(key, bytes_of(key), parent);
      ASSERT_EQ(evicted, reference.use(key, parent)) << "request " << request;
      evictions += evicted.size();
      parent = key;
    }
    const Key deleted = random() % 2 == 0 ? parent : chain * 10;
    if (random() % 4 != 0 || !tier.holds(deleted)) continue;
    tier.remove(deleted, Removal::kDeleted);
    reference.remove(deleted);
    ++deletions;
  }
  EXPECT_GT(evictions, 10000U);
  EXPECT_GT(deletions, 100U);
}

}  // namespace
}  // namespace nearkv::test

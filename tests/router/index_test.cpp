// The prefix index against a map of maps, under random events.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "index_oracle.hpp"
#include "prefix_index.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using router::IndexCounters;
using router::kAllTiers;
using router::kMaxWorkers;
using router::kTiers;
using router::PrefixIndex;
using router::PrefixMatch;
using router::WorkerSet;

constexpr std::size_t kLimitBytes = std::size_t{64} << 20;
using Chain = std::vector<std::uint64_t>;

std::map<WorkerId, TierMask> holders_of(const PrefixIndex& index, std::uint64_t hash) {
  std::map<WorkerId, TierMask> holders;
  for (const Holder& holder : index.holders(hash)) {
    EXPECT_TRUE(holders.emplace(holder.worker, holder.tiers).second) << "a holder stands twice";
  }
  return holders;
}

/// Chains that share beginnings, as prompts do.
std::vector<Chain> random_chains(Random& random, std::size_t count, std::uint32_t longest,
                                 bool are_numbers_in_a_row) {
  std::vector<Chain> chains;
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Chain chain;
    if (!chains.empty() && pick(random, 0, 3) != 0) {
      const Chain& other = chains[random() % chains.size()];
      chain.assign(other.begin(),
                   other.begin() + pick(random, 0, static_cast<std::uint32_t>(other.size())));
    }
    const std::size_t length = chain.size() + pick(random, 1, longest);
    while (chain.size() < length) chain.push_back(are_numbers_in_a_row ? number++ : random());
    chains.push_back(std::move(chain));
  }
  return chains;
}

struct Case {
  const char* name;
  std::uint32_t workers;
  std::uint32_t pools;
  bool are_numbers_in_a_row;
};

class PrefixIndexTest : public testing::TestWithParam<Case> {};

TEST_P(PrefixIndexTest, AnswersAsAMapOfMapsDoes) {
  for (std::uint64_t number = 0; number < 6; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    PrefixIndex index(kLimitBytes);
    IndexOracle oracle;
    WorkerSet pools;
    for (std::uint32_t i = 0; i < GetParam().pools; ++i) {
      oracle.pools.insert(static_cast<WorkerId>(i));
      pools.insert(static_cast<WorkerId>(i));
    }
    const auto chains = random_chains(random, 40, 30, GetParam().are_numbers_in_a_row);
    PrefixMatch match;
    for (std::uint32_t step = 0; step < 3000; ++step) {
      const Chain& chain = chains[random() % chains.size()];
      const auto worker = static_cast<WorkerId>(pick(random, 0, GetParam().workers - 1));
      const auto tier = static_cast<Tier>(pick(random, 0, kTiers - 1));
      const std::uint32_t first = pick(random, 0, static_cast<std::uint32_t>(chain.size()) - 1);
      const std::uint32_t count = pick(random, 1, static_cast<std::uint32_t>(chain.size()) - first);
      const std::span<const std::uint64_t> part = std::span(chain).subspan(first, count);
      const std::uint32_t kind = pick(random, 0, 20);
      if (kind == 0) {
        const auto tiers = static_cast<TierMask>(pick(random, 1, kAllTiers));
        EXPECT_EQ(index.clear(worker, tiers), Status::kOk);
        oracle.clear(worker, tiers);
      } else if (kind <= 8) {
        EXPECT_EQ(index.remove(worker, tier, part), Status::kOk);
        for (const std::uint64_t hash : part) oracle.remove(worker, mask_of(tier), hash);
      } else {
        EXPECT_EQ(index.store(worker, tier, std::span(chain).first(first + count)), Status::kOk);
        oracle.store(worker, tier, std::span(chain).first(first + count));
      }
      const Chain& asked = chains[random() % chains.size()];
      index.match(asked, pools, GetParam().workers, &match);
      for (std::uint32_t each = step % 8; each < GetParam().workers; each += 8) {
        const auto id = static_cast<WorkerId>(each);
        if (oracle.pools.contains(id)) continue;
        ASSERT_EQ(match.prefixes()[id], oracle.prefix(id, asked)) << "worker " << each;
      }
      const std::uint64_t hash = asked[random() % asked.size()];
      ASSERT_EQ(holders_of(index, hash), oracle.holders(hash));
      ASSERT_EQ(index.blocks(), oracle.blocks.size());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fleets, PrefixIndexTest,
                         testing::Values(Case{"One", 1, 0, false}, Case{"Few", 4, 0, true},
                                         Case{"Many", 64, 0, false}, Case{"Pool", 8, 1, false},
                                         Case{"Pools", 12, 3, true}),
                         [](const auto& param) { return param.param.name; });

TEST(PrefixIndexTest, HashesOfAllValuesAreBlocks) {
  PrefixIndex index(kLimitBytes);
  const Chain chain{0, 1, ~std::uint64_t{1}, std::uint64_t{1} << 63};
  EXPECT_EQ(index.store(kMaxWorkers - 1, Tier::kCxl, chain), Status::kOk);
  for (const std::uint64_t hash : chain) {
    EXPECT_EQ(holders_of(index, hash),
              (std::map<WorkerId, TierMask>{{kMaxWorkers - 1, mask_of(Tier::kCxl)}}));
  }
  EXPECT_EQ(index.remove(kMaxWorkers - 1, Tier::kCxl, chain), Status::kOk);
  EXPECT_EQ(index.blocks(), 0U);
}

TEST(PrefixIndexTest, EveryWorkerThereMayBeHoldsOneBlock) {
  PrefixIndex index(kLimitBytes);
  const Chain chain{7};
  for (std::size_t i = 0; i < kMaxWorkers; ++i) {
    ASSERT_EQ(index.store(static_cast<WorkerId>(i), Tier::kGpu, chain), Status::kOk);
  }
  EXPECT_EQ(index.holders(7).size(), kMaxWorkers);
  for (std::size_t i = 0; i < kMaxWorkers; i += 2) {
    ASSERT_EQ(index.remove(static_cast<WorkerId>(i), Tier::kGpu, chain), Status::kOk);
  }
  EXPECT_EQ(index.holders(7).size(), kMaxWorkers / 2);
  EXPECT_EQ(index.store(kMaxWorkers, Tier::kGpu, chain), Status::kBadArgument);
}

TEST(PrefixIndexTest, CountsWhatItWasTold) {
  PrefixIndex index(kLimitBytes);
  EXPECT_EQ(index.store(1, Tier::kGpu, Chain{1, 2, 3}), Status::kOk);
  EXPECT_EQ(index.remove(1, Tier::kGpu, Chain{2, 9}), Status::kOk);
  EXPECT_EQ(index.remove(1, Tier::kDram, Chain{3}), Status::kOk);
  EXPECT_EQ(index.remove(2, Tier::kGpu, Chain{3}), Status::kOk);
  const IndexCounters counters = index.counters();
  EXPECT_EQ(counters.stored, 3U);
  EXPECT_EQ(counters.removed, 4U);
  EXPECT_EQ(counters.unknown_removals, 3U);
  EXPECT_EQ(index.blocks(), 2U);
}

TEST(PrefixIndexTest, KeepsToItsLimitAndGoesOnWithin) {
  constexpr std::size_t kSmall = std::size_t{1} << 20;
  PrefixIndex index(kSmall);
  Random random = case_random(1);
  Chain all;
  std::size_t refused = 0;
  for (int i = 0; i < 100'000; ++i) {
    all.push_back(random());
    refused += index.store(0, Tier::kGpu, std::span(all).last(1)) != Status::kOk;
    ASSERT_LE(index.memory_bytes(), kSmall);
  }
  EXPECT_EQ(index.counters().refused, refused);
  EXPECT_EQ(index.blocks(), all.size() - refused);
  EXPECT_GT(index.blocks(), kSmall / 36);
  EXPECT_LT(index.blocks(), kSmall / 21);
  // As blocks come and go at the limit, room is found again, not once but always.
  const std::size_t held = index.blocks();
  ASSERT_EQ(index.clear(0), Status::kOk);
  EXPECT_EQ(index.blocks(), 0U);
  std::vector<std::uint64_t> window;
  for (std::size_t i = 0; i < 20 * held; ++i) {
    window.push_back(random());
    ASSERT_EQ(index.store(0, Tier::kGpu, std::span(window).last(1)), Status::kOk) << i;
    if (i < held / 2) continue;
    const std::uint64_t oldest = window[i - held / 2];
    ASSERT_EQ(index.remove(0, Tier::kGpu, std::span(&oldest, 1)), Status::kOk);
    ASSERT_LE(index.memory_bytes(), kSmall);
  }
}

TEST(PrefixIndexTest, ABlockCosts21To27Bytes) {
  PrefixIndex index(kLimitBytes);
  Random random = case_random(2);
  constexpr std::size_t kBlocks = 1'000'000;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const std::uint64_t hash = random();
    ASSERT_EQ(index.store(static_cast<WorkerId>(i % 64), Tier::kGpu, std::span(&hash, 1)),
              Status::kOk);
  }
  EXPECT_GE(index.memory_bytes(), 21 * kBlocks);
  // Up to a 32nd may wait for its readers to end.
  EXPECT_LE(index.memory_bytes(), 27 * kBlocks * 33 / 32);
}

}  // namespace
}  // namespace nearkv::test

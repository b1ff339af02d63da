// Matches beside events: what was acknowledged is seen, what never was is not.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "index_oracle.hpp"
#include "prefix_index.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using router::PrefixIndex;
using router::PrefixMatch;
using router::WorkerSet;

constexpr std::size_t kLimitBytes = std::size_t{6} << 20;  // Little, so that much is freed.
constexpr std::uint32_t kWorkers = 12;
constexpr std::uint32_t kBlocks = 400;

using Chain = std::vector<std::uint64_t>;

/// One writer's way: its worker takes up the chain block by block, with blocks of its own in
/// between, so that tables are copied; then gives it back from the tail on.
class Writer {
 public:
  Writer(PrefixIndex* index, const Chain& chain, WorkerId worker)
      : index_(*index), chain_(chain), worker_(worker), random_(case_random(1000 + worker)) {}

  void run() {
    for (int round = 0; round < 2; ++round) {
      ++phase_;
      for (std::uint32_t i = most_; i < kBlocks; ++i) {
        most_.store(i + 1);
        tell(true, chain_[i]);
        least_.store(i + 1);
        add_noise();
      }
      ++phase_;
      for (std::uint32_t i = kBlocks; i-- > kBlocks / 4;) {
        least_.store(i);
        tell(false, chain_[i]);
        most_.store(i);
        drop_noise();
      }
    }
  }

  /// Which of its ways it is on: odd ones add blocks, even ones give them back.
  [[nodiscard]] std::uint32_t phase() const { return phase_.load(); }
  /// Blocks of the chain that it has at least and at most, now.
  [[nodiscard]] std::uint32_t least() const { return least_.load(); }
  [[nodiscard]] std::uint32_t most() const { return most_.load(); }

 private:
  void tell(bool is_stored, std::uint64_t hash) {
    const std::span<const std::uint64_t> one(&hash, 1);
    const auto tier = static_cast<Tier>(worker_ % router::kTiers);
    ASSERT_EQ(is_stored ? index_.store(worker_, tier, one) : index_.remove(worker_, tier, one),
              Status::kOk);
  }
  void add_noise() {
    for (int i = 0; i < 20; ++i) {
      noise_.push_back(random_());
      tell(true, noise_.back());
    }
  }
  void drop_noise() {
    for (int i = 0; i < 26 && !noise_.empty(); ++i) {
      tell(false, noise_.back());
      noise_.pop_back();
    }
  }

  PrefixIndex& index_;
  const Chain& chain_;
  WorkerId worker_;
  Random random_;
  Chain noise_;
  std::atomic<std::uint32_t> phase_ = 0;
  std::atomic<std::uint32_t> least_ = 0;
  std::atomic<std::uint32_t> most_ = 0;
};

TEST(PrefixIndexRaceTest, AMatchSeesWhatWasToldBeforeIt) {
  PrefixIndex index(kLimitBytes);
  Random random = case_random(0);
  Chain chain(kBlocks);
  for (std::uint64_t& hash : chain) hash = random();
  std::vector<std::unique_ptr<Writer>> writers;
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    writers.push_back(std::make_unique<Writer>(&index, chain, static_cast<WorkerId>(i)));
  }
  std::atomic<bool> is_over = false;
  std::atomic<std::uint64_t> matches = 0;
  std::atomic<std::uint64_t> checks = 0;
  const auto read = [&] {
    const WorkerSet no_pools;
    PrefixMatch match;
    struct Look {
      std::uint32_t phase, least, most;
    };
    const auto look = [&](std::uint32_t i) {
      return Look{writers[i]->phase(), writers[i]->least(), writers[i]->most()};
    };
    std::array<Look, kWorkers> before{};
    while (!is_over.load()) {
      for (std::uint32_t i = 0; i < kWorkers; ++i) before[i] = look(i);
      index.match(chain, no_pools, kWorkers, &match);
      for (std::uint32_t i = 0; i < kWorkers; ++i) {
        const std::uint32_t total = match.prefixes()[i].total();
        EXPECT_EQ(match.prefixes()[i].blocks[i % router::kTiers], total);
        const Look after = look(i);
        if (writers[i]->phase() != before[i].phase) continue;
        const bool grows = after.phase % 2 == 1;
        EXPECT_GE(total, grows ? before[i].least : after.least) << "worker " << i;
        EXPECT_LE(total, grows ? after.most : before[i].most) << "worker " << i;
        ++checks;
      }
      ++matches;
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(read);
  threads.emplace_back(read);
  std::vector<std::thread> telling;
  for (const auto& writer : writers) telling.emplace_back([&writer] { writer->run(); });
  for (std::thread& thread : telling) thread.join();
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(matches.load(), 0U);
  EXPECT_GT(checks.load(), matches.load());
  // Every writer ended with the first quarter of the chain.
  const WorkerSet no_pools;
  PrefixMatch match;
  index.match(chain, no_pools, kWorkers, &match);
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    EXPECT_EQ(match.prefixes()[i].total(), kBlocks / 4);
  }
}

TEST(PrefixIndexRaceTest, EndsAsAMapOfMapsThatWasToldTheSame) {
  PrefixIndex index(kLimitBytes);
  Random random = case_random(3);
  Chain chain(2000);
  for (std::uint64_t& hash : chain) hash = random();
  IndexOracle oracle;
  std::vector<std::thread> threads;
  std::atomic<bool> is_over = false;
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    const auto id = static_cast<WorkerId>(worker);
    const auto tell = [&chain, id](auto store, auto remove, auto clear) {
      Random own = case_random(100 + id);
      for (int step = 0; step < 300; ++step) {
        const auto tier = static_cast<Tier>(pick(own, 0, router::kTiers - 1));
        const std::uint32_t first = pick(own, 0, 1900);
        const auto part = std::span<const std::uint64_t>(chain).subspan(first, pick(own, 1, 100));
        const std::uint32_t kind = pick(own, 0, 60);
        if (kind == 0)
          clear(id);
        else if (kind < 25)
          remove(id, tier, part);
        else
          store(id, tier, part);
      }
    };
    tell([&](WorkerId who, Tier tier, auto part) { oracle.store(who, tier, part); },
         [&](WorkerId who, Tier tier, auto part) {
           for (const std::uint64_t hash : part) oracle.remove(who, mask_of(tier), hash);
         },
         [&](WorkerId who) { oracle.clear(who, router::kAllTiers); });
    threads.emplace_back([&index, tell] {
      tell([&](WorkerId who, Tier tier,
               auto part) { EXPECT_EQ(index.store(who, tier, part), Status::kOk); },
           [&](WorkerId who, Tier tier, auto part) {
             EXPECT_EQ(index.remove(who, tier, part), Status::kOk);
           },
           [&](WorkerId who) { EXPECT_EQ(index.clear(who), Status::kOk); });
    });
  }
  std::thread reader([&] {
    const WorkerSet no_pools;
    PrefixMatch match;
    while (!is_over) index.match(chain, no_pools, kWorkers, &match);
  });
  for (std::thread& thread : threads) thread.join();
  is_over = true;
  reader.join();
  for (const std::uint64_t hash : chain) {
    std::map<WorkerId, TierMask> holders;
    for (const Holder& holder : index.holders(hash)) holders[holder.worker] = holder.tiers;
    ASSERT_EQ(holders, oracle.holders(hash));
  }
  EXPECT_EQ(index.blocks(), oracle.blocks.size());
}

}  // namespace
}  // namespace nearkv::test

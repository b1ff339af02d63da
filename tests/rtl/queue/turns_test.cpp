// nkv_queue_turns in the front: shares by weight within the bound of start-time fair queueing, and
// how long a small command waits behind large ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "front_unit.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr emulator::MemoryTiming kSlow{.latency_cycles = 60, .jitter_cycles = 0, .seed = 1};

/// What a command costs: what it moves, and its two bursts in the rings.
double cost(const Work& work) { return work.reads + work.writes + work.results + 2.0; }

Work work_of(std::uint32_t reads) {
  Work work;
  work.reads = reads;
  work.cycles = reads + 110;  // Longer than the next one's fetch.
  return work;
}

struct Share {
  unsigned queue;
  unsigned weight;
  std::uint32_t least;  ///< Bursts of a command,
  std::uint32_t most;
  std::uint32_t results = 0;  ///< and what it writes while it trails.
};

/// Keeps these queues full of commands from one moment on.
class Load {
 public:
  Load(FrontUnit* unit, std::vector<Share> shares, std::uint64_t seed)
      : unit_(unit), shares_(std::move(shares)), random_(test::case_random(seed)) {
    for (const Share& share : shares_) {
      unit_->enable(share.queue);
      unit_->write(NKV_REG_WEIGHT(share.queue), share.weight);
    }
  }

  void fill() {
    for (const Share& share : shares_) {
      const unsigned taken = unit_->taken(share.queue);
      while (unit_->take(share.queue)) {
      }
      if (unit_->taken(share.queue) != taken) {
        unit_->write(NKV_REG_CQ_HEAD(share.queue), unit_->taken(share.queue));
      }
      if (unit_->open(share.queue) >= FrontUnit::kEntries / 2) continue;
      while (unit_->open(share.queue) < FrontUnit::kEntries) {
        const auto spread = share.most - share.least + 1;
        Work work = work_of(share.least + static_cast<std::uint32_t>(random_() % spread));
        work.results = share.results;
        work.trails = share.results * 4;
        unit_->submit(share.queue, work);
      }
      unit_->ring(share.queue);
    }
  }

 private:
  FrontUnit* unit_;
  std::vector<Share> shares_;
  test::Random random_;
};

/// Lets a queue of its own hold the engine until all others have commands that can start.
void hold_engine(FrontUnit& unit, unsigned queue) {
  unit.enable(queue);
  Work work;
  work.cycles = 3000;
  unit.submit(queue, work);
  unit.ring(queue);
  while (!unit.engine_is_busy()) unit.cycle();
}

void expect_fair(const std::vector<Share>& shares, std::uint64_t seed) {
  FrontUnit unit(kSlow);
  Load load(&unit, shares, seed);
  hold_engine(unit, 15);
  load.fill();
  while (unit.engine_is_busy()) unit.cycle();
  unit.started.clear();
  std::array<double, FrontUnit::kQueues> served{};  // By weight.
  std::size_t seen = 0;
  while (unit.started.size() < 400) {
    load.fill();
    unit.cycles(20);
    for (; seen < unit.started.size(); ++seen) {
      // At a start, all that started before has ended.
      for (const Share& a : shares) {
        for (const Share& b : shares) {
          const double bound =
              (a.most + a.results + 2.0) / a.weight + (b.most + b.results + 2.0) / b.weight;
          ASSERT_LE(served.at(a.queue) - served.at(b.queue), bound + 1e-6)
              << "queues " << a.queue << " and " << b.queue << ", command " << seen;
        }
      }
      const Started& start = unit.started.at(seen);
      const auto share = std::ranges::find(shares, start.queue, &Share::queue);
      ASSERT_NE(share, shares.end());
      served.at(start.queue) += cost(start.work) / share->weight;
    }
  }
}

TEST(TurnsTest, SharesAreFairWithinOneCommandEach) {
  expect_fair({{0, 1, 10, 10}, {1, 1, 10, 10}}, 1);
  expect_fair({{0, 1, 10, 50}, {1, 2, 10, 50}, {7, 5, 10, 50}, {14, 15, 10, 50}}, 2);
  expect_fair({{2, 3, 400, 500}, {3, 3, 1, 8}, {9, 7, 30, 60}}, 3);
  expect_fair({{0, 15, 1, 300}, {1, 1, 1, 300}, {2, 11, 1, 300}, {3, 13, 1, 300}}, 4);
}

TEST(TurnsTest, SharesStayFairWhenCommandsTrail) {
  expect_fair({{0, 1, 40, 40, 20}, {1, 15, 40, 40, 20}}, 11);
  expect_fair({{0, 3, 40, 90, 30}, {5, 3, 40, 90}}, 12);
  expect_fair({{0, 1, 10, 50, 4}, {1, 2, 10, 50, 40}, {7, 5, 10, 50}, {14, 15, 10, 50, 25}}, 13);
}

TEST(TurnsTest, WeightZeroCountsAsOne) {
  FrontUnit unit(kSlow);
  Load load(&unit, {{0, 0, 40, 40}, {1, 1, 40, 40}}, 5);
  hold_engine(unit, 15);
  load.fill();
  while (unit.engine_is_busy()) unit.cycle();
  unit.started.clear();
  while (unit.started.size() < 60) {
    load.fill();
    unit.cycles(20);
  }
  const auto first = std::ranges::count(unit.started, 0U, &Started::queue);
  EXPECT_NEAR(static_cast<double>(first), static_cast<double>(unit.started.size()) / 2, 1.0);
}

TEST(TurnsTest, ASmallCommandWaitsForTheOneInFlightAndAtMostOneOfEachOther) {
  std::vector<Share> shares;
  for (unsigned queue = 0; queue < 8; ++queue) shares.push_back({queue, 15, 900, 1000});
  FrontUnit unit(kSlow);
  Load load(&unit, shares, 6);
  constexpr unsigned kSmall = 12;
  unit.enable(kSmall);
  test::Random random = test::case_random(7);
  unsigned most_others = 0;
  for (unsigned turn = 0; turn < 30; ++turn) {
    // At first, all tags are equal.
    const std::uint64_t pause = turn == 0 ? 20'000 : 2000 + random() % 3000;
    for (const std::uint64_t end = unit.now() + pause; unit.now() < end;) {
      load.fill();
      unit.cycle();
    }
    const std::size_t fetched_before = unit.fetched.size();
    unit.submit(kSmall, work_of(4));
    unit.ring(kSmall);
    unit.cycles(60 + 40);
    ASSERT_GT(unit.fetched.size(), fetched_before);
    const std::size_t first = unit.started.size();
    const auto has_started = [&] {
      return std::ranges::any_of(unit.started.begin() + static_cast<std::ptrdiff_t>(first),
                                 unit.started.end(),
                                 [](const Started& start) { return start.queue == kSmall; });
    };
    std::array<unsigned, FrontUnit::kQueues> others{};
    while (unit.open(kSmall) != 0) {
      load.fill();
      unit.cycle();
      if (unit.take(kSmall)) unit.write(NKV_REG_CQ_HEAD(kSmall), unit.taken(kSmall));
    }
    if (!has_started()) continue;  // It did while it was being waited for.
    unsigned before = 0;
    for (std::size_t i = first; unit.started.at(i).queue != kSmall; ++i, ++before) {
      EXPECT_EQ(++others.at(unit.started.at(i).queue), 1U);
    }
    most_others = std::max(most_others, before);
  }
  // Tags are hardly ever equal, so that the small one is next but for a start meanwhile.
  EXPECT_LE(most_others, 1U);
}

// Over any time in which queue 0 always has a command, another gets no more than the bound more
// than it, however it comes and goes.
TEST(TurnsTest, AQueueThatPausesSavesNothingUp) {
  constexpr Share kAlways{0, 2, 60, 100};
  constexpr Share kSeldom{9, 3, 10, 100};
  constexpr double kBound =
      (kAlways.most + 2.0) / kAlways.weight + (kSeldom.most + 2.0) / kSeldom.weight;
  FrontUnit unit(kSlow);
  Load always(&unit, {kAlways}, 8);
  Load seldom(&unit, {kSeldom}, 9);
  test::Random random = test::case_random(10);
  std::uint64_t until = 0;
  bool works = false;
  double ahead = 0;  // Of the one that comes and goes,
  double least = 0;  // and how little it was before.
  std::size_t seen = 0;
  while (unit.started.size() < 1500) {
    always.fill();
    if (unit.now() >= until) {
      works = !works;
      until = unit.now() + random() % (works ? 4000 : 20'000);
    }
    if (works) seldom.fill();
    unit.cycles(1 + random() % 20);
    for (; seen < unit.started.size(); ++seen) {
      ASSERT_LE(ahead - least, kBound + 1e-6) << "command " << seen;
      least = std::min(least, ahead);
      const Started& start = unit.started.at(seen);
      const bool is_seldom = start.queue == kSeldom.queue;
      ahead += cost(start.work) / (is_seldom ? kSeldom.weight : -double{kAlways.weight});
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

// DRAM's answers in cases small enough for pencil and paper, in clocks of DDR5-4800B: tRCD 39,
// CL 40, burst 8, tRP 39, tRAS 77, tRTP 18, CWL 38, tWTR_L 24, tCCD_L 12.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "fabric/dram/dram.hpp"

namespace nearkv::test {
namespace {

using dram::Channel;
using dram::Counts;
using dram::Dram;
using dram::kLineBytes;
using dram::Operation;
using dram::Place;
using dram::Timing;

const Timing& ddr5() { return *dram::find_timing("ddr5"); }

/// A channel and what it answered, by token.
struct Bench {
  Channel channel{ddr5()};
  std::vector<dram::Command> log;
  std::map<std::uint64_t, std::uint64_t> done;

  Bench() { channel.set_log(&log); }

  void read(std::uint64_t token, unsigned bank, std::uint64_t row, unsigned line = 0) {
    if (!channel.read(token, {.channel = 0, .bank = bank, .row = row, .line = line})) {
      done[token] = channel.now();
    }
  }
  void write(unsigned bank, std::uint64_t row, unsigned line = 0) {
    channel.write({.channel = 0, .bank = bank, .row = row, .line = line});
  }
  void run(unsigned clocks) {
    for (unsigned i = 0; i < clocks; ++i) {
      if (const auto answer = channel.advance()) done[answer->token] = answer->clock;
    }
  }
  [[nodiscard]] std::vector<std::uint64_t> clocks(Operation operation) const {
    std::vector<std::uint64_t> clocks;
    for (const dram::Command& command : log) {
      if (command.operation == operation) clocks.push_back(command.clock);
    }
    return clocks;
  }
};

using Clocks = std::vector<std::uint64_t>;

TEST(DramCasesTest, AClosedBankAnOpenRowAnotherRow) {
  Bench bench;
  bench.read(1, 0, 7);
  bench.read(2, 0, 7, 1);
  bench.read(3, 0, 8);
  bench.run(300);
  EXPECT_EQ(bench.done[1], 39U + 40 + 8);
  EXPECT_EQ(bench.done[2], 39U + 12 + 40 + 8);
  // The second read at 51 may be followed by a precharge at 69, the activation at 77.
  EXPECT_EQ(bench.clocks(Operation::kPrecharge), Clocks{77});
  EXPECT_EQ(bench.clocks(Operation::kActivate), (Clocks{0, 77 + 39}));
  EXPECT_EQ(bench.done[3], 77U + 39 + 39 + 40 + 8);
  const Counts& counts = bench.channel.counts();
  EXPECT_EQ(counts.misses, 1U);
  EXPECT_EQ(counts.hits, 1U);
  EXPECT_EQ(counts.conflicts, 1U);
}

TEST(DramCasesTest, AHitOvertakesAConflict) {
  Bench bench;
  bench.read(1, 0, 7);
  bench.read(2, 0, 8);
  bench.read(3, 0, 7, 1);
  bench.run(300);
  EXPECT_LT(bench.done[3], bench.done[2]);
  EXPECT_EQ(bench.done[3], 39U + 12 + 40 + 8);
}

TEST(DramCasesTest, BanksOverlap) {
  Bench bench;
  for (unsigned bank = 0; bank < 8; ++bank) bench.read(bank, bank, 7);
  bench.run(300);
  // Activations 8 apart, four in 32; reads find the bus free every 8 clocks, where an activation
  // of two clocks may be in the way: rows 0 to 4 are open from 39, 47, ... and 71 on.
  EXPECT_EQ(bench.clocks(Operation::kActivate), (Clocks{0, 8, 16, 24, 32, 41, 49, 57}));
  EXPECT_EQ(bench.done[0], 39U + 40 + 8);
  EXPECT_EQ(bench.done[4], 71U + 40 + 8);
}

TEST(DramCasesTest, AWriteAndThenARead) {
  Bench bench;
  for (unsigned line = 0; line < 32; ++line) bench.write(0, 7, line);
  bench.run(39 + 32 * 24);
  // One group: 24 apart. Down to none, for no read waits.
  const Clocks writes = bench.clocks(Operation::kWrite);
  ASSERT_EQ(writes.size(), 32U);
  EXPECT_EQ(writes.front(), 39U);
  EXPECT_EQ(writes.back(), 39U + 31 * 24);
  bench.read(1, 0, 7, 40);
  bench.run(200);
  EXPECT_EQ(bench.done[1], writes.back() + 38 + 8 + 24 + 40 + 8);
}

TEST(DramCasesTest, AWriteThatWaitsAnswersReadsAndIsReplaced) {
  Bench bench;
  bench.write(0, 7);
  bench.write(0, 7);
  bench.read(1, 0, 7);
  EXPECT_TRUE(bench.done.contains(1));
  bench.run(500);
  EXPECT_TRUE(bench.log.empty());
  EXPECT_EQ(bench.channel.counts().forwards, 2U);
}

TEST(DramCasesTest, ARefreshWaitsForItsBanksAndHoldsThem) {
  Bench bench;
  bench.run(9300);
  bench.read(1, 0, 7);
  bench.run(100);
  bench.read(2, 1, 7);  // Due at 9360: not before.
  bench.run(1000);
  EXPECT_EQ(bench.done[1], 9300U + 39 + 40 + 8);
  EXPECT_EQ(bench.clocks(Operation::kPrechargeSlice), Clocks{9300 + 77});
  EXPECT_EQ(bench.clocks(Operation::kRefresh), Clocks{9300 + 77 + 39});
  EXPECT_EQ(bench.done[2], 9300U + 77 + 39 + 708 + 39 + 40 + 8);
}

TEST(DramCasesTest, AReadOfAClosedBankTakesTheLatencyThatWasAskedFor) {
  for (const Timing& timing : dram::timings()) {
    SCOPED_TRACE(timing.name);
    for (const unsigned latency : {Dram::least_latency(timing), 60U}) {
      Dram dram(timing, latency);
      dram.read(7, 0);
      unsigned cycles = 0;
      std::optional<std::uint64_t> answer;
      for (; !answer && cycles < 1000; ++cycles) {
        dram.advance();
        answer = dram.answered_read();
      }
      EXPECT_EQ(answer, 7U);
      EXPECT_EQ(cycles, latency);
    }
  }
}

TEST(DramCasesTest, EveryLineHasItsPlace) {
  for (const Timing& timing : dram::timings()) {
    SCOPED_TRACE(timing.name);
    std::set<std::tuple<unsigned, unsigned, std::uint64_t, unsigned>> places;
    constexpr std::uint64_t kLines = 1 << 17;
    for (std::uint64_t line = 0; line < kLines; ++line) {
      const Place place = place_of(timing, line * kLineBytes);
      EXPECT_LT(place.channel, timing.channels);
      EXPECT_LT(place.bank, timing.bank_count());
      EXPECT_LT(place.line, timing.lines);
      places.emplace(place.channel, place.bank, place.row, place.line);
    }
    EXPECT_EQ(places.size(), kLines);
  }
}

TEST(DramCasesTest, LinesAPowerOfTwoApartMeetAllBanks) {
  for (const Timing& timing : dram::timings()) {
    SCOPED_TRACE(timing.name);
    const std::uint64_t row_bytes =
        kLineBytes * timing.channels * timing.bank_count() * timing.lines;
    std::set<std::pair<unsigned, unsigned>> banks;
    for (std::uint64_t i = 0; i < std::uint64_t{4} * timing.bank_count(); ++i) {
      const Place place = place_of(timing, i * row_bytes);
      banks.emplace(place.channel, place.bank);
    }
    EXPECT_EQ(banks.size(), timing.channels * timing.bank_count());
  }
}

}  // namespace
}  // namespace nearkv::test

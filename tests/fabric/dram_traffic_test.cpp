// Long traffic of every kind: no rule is broken, nothing is lost, no one starves, and streams come
// close to what the parts can give.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "dram_rules.hpp"
#include "fabric/dram/dram.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using dram::Command;
using dram::Counts;
using dram::Dram;
using dram::kLineBytes;
using dram::Operation;
using dram::Timing;

/// What one port asks for: an address a cycle, as long as it has some.
struct Traffic {
  std::function<std::uint64_t(std::uint64_t)> address{};  ///< Of the n-th access.
  unsigned write_percent = 0;
  unsigned idle_percent = 0;
  std::uint64_t accesses = 20000;
};

struct Outcome {
  std::uint64_t cycles = 0;
  std::uint64_t answers = 0;
  std::uint64_t longest_read = 0;  ///< Cycles.
  Counts counts;
  std::vector<std::vector<Command>> commands;  ///< Of each channel.
};

Outcome run(const Timing& timing, const Traffic& traffic, Random random) {
  Dram dram(timing, 60);
  Outcome outcome;
  outcome.commands.resize(timing.channels);
  for (unsigned i = 0; i < timing.channels; ++i) {
    dram.channels()[i].set_log(&outcome.commands[i]);
  }
  std::vector<std::uint64_t> asked_at(traffic.accesses);
  const auto note = [&](const std::optional<std::uint64_t>& token, bool is_read) {
    if (!token) return;
    ++outcome.answers;
    const std::uint64_t taken = outcome.cycles - asked_at.at(*token);
    if (is_read) outcome.longest_read = std::max(outcome.longest_read, taken);
    asked_at.at(*token) = ~std::uint64_t{0};  // A second answer would take for ever.
  };
  std::uint64_t asked = 0;
  for (; outcome.answers < traffic.accesses && outcome.cycles < 60 * traffic.accesses;
       ++outcome.cycles) {
    note(dram.answered_read(), true);
    note(dram.answered_write(), false);
    if (asked < traffic.accesses && pick(random, 0, 99) >= traffic.idle_percent) {
      const bool writes = pick(random, 0, 99) < traffic.write_percent;
      if (writes ? dram.takes_writes() : dram.takes_reads()) {
        asked_at[asked] = outcome.cycles;
        const std::uint64_t address = traffic.address(asked);
        writes ? dram.write(asked, address) : dram.read(asked, address);
        ++asked;
      }
    }
    dram.advance();
  }
  for (const dram::Channel& channel : dram.channels()) {
    outcome.counts.hits += channel.counts().hits;
    outcome.counts.misses += channel.counts().misses;
    outcome.counts.conflicts += channel.counts().conflicts;
    outcome.counts.forwards += channel.counts().forwards;
  }
  return outcome;
}

std::uint64_t any_line(Random* random) {
  return std::uint64_t{pick(*random, 0, (1U << 24) - 1)} * kLineBytes;
}

/// What a channel has left beside its refreshes.
double refreshed(const Timing& timing) {
  return timing.refresh.slices > 1
             ? 1
             : 1 - static_cast<double>(timing.refresh.duration) / timing.refresh.interval;
}

double cycles_per_line(const Outcome& outcome, const Traffic& traffic) {
  return static_cast<double>(outcome.cycles) / static_cast<double>(traffic.accesses);
}

class DramTrafficTest : public testing::TestWithParam<Timing> {};

TEST_P(DramTrafficTest, NoRuleIsBrokenAndNothingIsLost) {
  const Timing& timing = GetParam();
  const std::uint64_t row_bytes = kLineBytes * timing.channels * timing.bank_count() * timing.lines;
  for (std::uint64_t number = 0; number < 16; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    Traffic traffic{.write_percent = pick(random, 0, 4) * 25,
                    .idle_percent = pick(random, 0, 3) * 30,
                    .accesses = 6000};
    Random addresses = case_random(100 + number);
    const std::uint64_t stride = kLineBytes << pick(random, 0, 16);
    const unsigned kind = pick(random, 0, 3);
    traffic.address = [&, kind](std::uint64_t n) -> std::uint64_t {
      switch (kind) {
        case 0:
          return any_line(&addresses);
        case 1:
          return n * stride;
        case 2:  // Runs.
          return n % 16 * kLineBytes + (n / 16 * 0x9e3779b97f4a7c15 >> 44) * 1024;
        default:  // Few banks, few rows.
          return pick(addresses, 0, 5) * row_bytes + pick(addresses, 0, 63) * kLineBytes;
      }
    };
    const Outcome outcome = run(timing, traffic, random);
    EXPECT_EQ(outcome.answers, traffic.accesses);
    std::uint64_t columns = 0;
    for (const std::vector<Command>& commands : outcome.commands) {
      const std::vector<std::string> broken = broken_rules(timing, commands);
      EXPECT_TRUE(broken.empty()) << broken.size() << ", the first: " << broken.front();
      columns += static_cast<std::uint64_t>(std::ranges::count_if(commands, [](const Command& c) {
        return c.operation == Operation::kRead || c.operation == Operation::kWrite;
      }));
    }
    // Some writes may still wait.
    const Counts& counts = outcome.counts;
    const std::uint64_t lines = counts.hits + counts.misses + counts.conflicts;
    EXPECT_LE(lines * timing.columns, columns);
    EXPECT_LE(lines + counts.forwards, traffic.accesses);
    EXPECT_GE(lines + counts.forwards + timing.channels * dram::Channel::kQueued, traffic.accesses);
  }
}

TEST_P(DramTrafficTest, AStreamIsBoundByThePortAndRefreshes) {
  const Timing& timing = GetParam();
  const Traffic traffic{.address = [](std::uint64_t n) { return n * kLineBytes; }};
  const Outcome outcome = run(timing, traffic, case_random(0));
  EXPECT_LT(cycles_per_line(outcome, traffic), 1.05 / refreshed(timing));
  EXPECT_GT(outcome.counts.hits, traffic.accesses * 9 / 10);
}

TEST_P(DramTrafficTest, AStreamOfWritesIsBoundByItsGroups) {
  const Timing& timing = GetParam();
  const Traffic traffic{.address = [](std::uint64_t n) { return n * kLineBytes; },
                        .write_percent = 100};
  const Outcome outcome = run(timing, traffic, case_random(0));
  EXPECT_LT(cycles_per_line(outcome, traffic), 1.08 / refreshed(timing));
}

TEST_P(DramTrafficTest, RandomReadsAreBoundByActivations) {
  const Timing& timing = GetParam();
  Random addresses = case_random(1);
  const Traffic traffic{.address = [&](std::uint64_t) { return any_line(&addresses); }};
  const Outcome outcome = run(timing, traffic, case_random(2));
  const double activation = std::max<double>(timing.rrd_s, timing.faw / 4.0);
  const double bound = activation / timing.clocks_per_cycle / timing.channels / refreshed(timing);
  EXPECT_GT(cycles_per_line(outcome, traffic), bound);
  EXPECT_LT(cycles_per_line(outcome, traffic), std::max(1.0 / refreshed(timing), bound) * 1.06);
  EXPECT_LT(outcome.counts.hits, traffic.accesses / 100);
}

TEST_P(DramTrafficTest, ReadsAndWritesTakeTurnsInBatches) {
  const Timing& timing = GetParam();
  const Traffic traffic{.address = [](std::uint64_t n) { return n * kLineBytes; },
                        .write_percent = 50};
  const Outcome outcome = run(timing, traffic, case_random(3));
  EXPECT_LT(cycles_per_line(outcome, traffic), 1.75);
  for (const std::vector<Command>& commands : outcome.commands) {
    unsigned turns = 0;
    unsigned columns = 0;
    Operation last = Operation::kRead;
    for (const Command& command : commands) {
      if (command.operation != Operation::kRead && command.operation != Operation::kWrite) continue;
      ++columns;
      if (command.operation != last) ++turns;
      last = command.operation;
    }
    EXPECT_GT(columns, 12 * turns);
  }
}

TEST_P(DramTrafficTest, NoReadStarves) {
  const Timing& timing = GetParam();
  // A row that is always hit, and now and then a read of another row of that bank.
  const std::uint64_t bank_lines = std::uint64_t{timing.channels} * timing.groups;
  const std::uint64_t row_lines = bank_lines * timing.banks * timing.lines;
  const Traffic traffic{.address = [&](std::uint64_t n) {
    const bool is_other = n % 512 == 100;
    // Row bits that fold to nothing: the same bank.
    const std::uint64_t row = is_other ? row_lines * timing.bank_count() * 3 : 0;
    return (row + n % timing.lines * bank_lines) * kLineBytes;
  }};
  const Outcome outcome = run(timing, traffic, case_random(4));
  EXPECT_GT(outcome.counts.conflicts, 0U);
  const std::uint64_t starved = dram::Channel::kStarved / timing.clocks_per_cycle;
  EXPECT_GT(outcome.longest_read, starved);
  EXPECT_LT(outcome.longest_read, starved + 1000);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DramTrafficTest, testing::ValuesIn(dram::timings()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace nearkv::test

// The checker of rules finds each of them broken, and nothing where the gap is just enough.
#include "dram_rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace nearkv::test {
namespace {

using dram::Command;
using dram::Operation;
using dram::Timing;

struct Case {
  std::string rule;
  std::vector<Command> before;
  Operation operation;  ///< Of the command at the earliest clock that the rule allows.
  unsigned bank;
  std::uint64_t row;
  std::uint64_t clock;
};

constexpr Operation kActivate = Operation::kActivate;
constexpr Operation kRead = Operation::kRead;
constexpr Operation kWrite = Operation::kWrite;
constexpr Operation kPrecharge = Operation::kPrecharge;
constexpr Operation kPrechargeSlice = Operation::kPrechargeSlice;
constexpr Operation kRefresh = Operation::kRefresh;

const Timing& ddr4() { return *dram::find_timing("ddr4"); }
const Timing& ddr5() { return *dram::find_timing("ddr5"); }
const Timing& same_bank() { return *dram::find_timing("ddr5_same_bank"); }

void expect_edge(const Timing& timing, const Case& edge) {
  SCOPED_TRACE(edge.rule);
  std::vector<Command> commands = edge.before;
  commands.push_back(
      {.clock = edge.clock, .operation = edge.operation, .bank = edge.bank, .row = edge.row});
  EXPECT_EQ(broken_rules(timing, commands), std::vector<std::string>{});
  --commands.back().clock;
  const std::vector<std::string> broken = broken_rules(timing, commands);
  const std::string told = edge.rule + " at clock " + std::to_string(edge.clock - 1);
  EXPECT_NE(std::ranges::find(broken, told), broken.end()) << testing::PrintToString(broken);
}

TEST(DramRulesTest, EveryGapHasItsEdge) {
  // DDR5-4800B: banks 0 and 1 are of different groups, 0 and 8 of the same.
  const Command open_0{.clock = 0, .operation = kActivate, .bank = 0, .row = 5};
  const Command open_1{.clock = 8, .operation = kActivate, .bank = 1, .row = 5};
  const Command open_8{.clock = 12, .operation = kActivate, .bank = 8, .row = 5};
  const Command read_0{.clock = 100, .operation = kRead, .bank = 0, .row = 5};
  const Command write_0{.clock = 100, .operation = kWrite, .bank = 0, .row = 5};
  const Command close_0{.clock = 200, .operation = kPrecharge, .bank = 0, .row = 0};
  for (const Case& edge : {
           Case{"tRRD_S", {open_0}, kActivate, 1, 5, 8},
           {"tRRD_L", {open_0}, kActivate, 8, 5, 12},
           {"tRCD", {open_0}, kRead, 0, 5, 39},
           {"tRCD", {open_0}, kWrite, 0, 5, 39},
           {"tRAS", {open_0}, kPrecharge, 0, 0, 77},
           {"tRAS", {open_0}, kPrechargeSlice, 0, 0, 77},
           {"tCCD_S", {open_0, open_1, read_0}, kRead, 1, 5, 108},
           {"tCCD_L", {open_0, open_8, read_0}, kRead, 8, 5, 112},
           {"tCCD_S_WR", {open_0, open_1, write_0}, kWrite, 1, 5, 108},
           {"tCCD_L_WR", {open_0, open_8, write_0}, kWrite, 8, 5, 124},
           {"tRTW", {open_0, open_1, read_0}, kWrite, 1, 5, 114},
           {"tWTR_S", {open_0, open_1, write_0}, kRead, 1, 5, 152},
           {"tWTR_L", {open_0, open_8, write_0}, kRead, 8, 5, 170},
           {"tRTP", {open_0, read_0}, kPrecharge, 0, 0, 118},
           {"tWR", {open_0, write_0}, kPrecharge, 0, 0, 218},
           {"tRP", {open_0, close_0}, kActivate, 0, 6, 239},
           {"tPPD", {open_0, open_1, close_0}, kPrecharge, 1, 0, 202},
           {"command bus", {open_0, open_1, read_0}, kPrecharge, 1, 0, 102},
       }) {
    expect_edge(ddr5(), edge);
  }
}

TEST(DramRulesTest, FourActivations) {
  const std::vector<Command> four{{.clock = 0, .operation = kActivate, .bank = 0, .row = 0},
                                  {.clock = 4, .operation = kActivate, .bank = 1, .row = 0},
                                  {.clock = 8, .operation = kActivate, .bank = 2, .row = 0},
                                  {.clock = 12, .operation = kActivate, .bank = 3, .row = 0}};
  expect_edge(ddr4(), {"tFAW", four, kActivate, 4, 0, 34});
}

TEST(DramRulesTest, Refreshes) {
  const Command first{.clock = 9360, .operation = kRefresh, .bank = 0, .row = 0};
  expect_edge(ddr5(), {"tREFI", {}, kRefresh, 0, 0, 9360});
  expect_edge(ddr5(), {"tRFC", {first}, kActivate, 0, 0, 9360 + 708});
  EXPECT_EQ(broken_rules(ddr5(), std::vector<Command>{{18721, kRefresh, 0, 0}}).size(), 1U);
  const std::vector<Command> open{{9000, kActivate, 3, 0}, {9360, kRefresh, 0, 0}};
  EXPECT_EQ(broken_rules(ddr5(), open),
            std::vector<std::string>{"refresh of an open bank at clock 9360"});
  // Of one slice, while others work.
  const Command first_of_four{.clock = 1170, .operation = kRefresh, .bank = 0, .row = 0};
  expect_edge(same_bank(), {"tREFSBRD", {first_of_four}, kActivate, 8, 0, 1170 + 72});
  expect_edge(same_bank(), {"tRFC", {first_of_four}, kActivate, 7, 0, 1170 + 312});
  const std::vector<Command> out_of_turn{{1170, kRefresh, 1, 0}};
  EXPECT_EQ(broken_rules(same_bank(), out_of_turn),
            std::vector<std::string>{"slice's turn at clock 1170"});
}

TEST(DramRulesTest, RowsMustBeOpenAndDataApart) {
  EXPECT_EQ(broken_rules(ddr5(), std::vector<Command>{{0, kRead, 0, 5}}).size(), 1U);
  const std::vector<Command> other_row{{0, kActivate, 0, 5}, {50, kRead, 0, 6}};
  EXPECT_EQ(broken_rules(ddr5(), other_row), std::vector<std::string>{"closed row at clock 50"});
  const std::vector<Command> twice{{0, kActivate, 0, 5}, {500, kActivate, 0, 6}};
  EXPECT_EQ(broken_rules(ddr5(), twice),
            std::vector<std::string>{"activation of an open bank at clock 500"});
  Timing slow = ddr5();
  slow.burst = 9;  // More than tCCD_S has room for.
  const std::vector<Command> close_reads{
      {0, kActivate, 0, 5}, {8, kActivate, 1, 5}, {60, kRead, 0, 5}, {68, kRead, 1, 5}};
  EXPECT_EQ(broken_rules(slow, close_reads), std::vector<std::string>{"data bus at clock 68"});
}

}  // namespace
}  // namespace nearkv::test

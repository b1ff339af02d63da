// Hosts and cards on links: sums on paper, shares, and what more of each brings.
#include "fabric/link/system.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "fabric/link/traffic.hpp"

namespace nearkv::test {
namespace {

using namespace fabric;  // NOLINT(google-build-using-namespace)

constexpr Picoseconds kFlit = 1000;

/// Delays that can be told apart in a sum.
Shape shape_of(unsigned hosts, unsigned cards) {
  return {.hosts = hosts,
          .cards = cards,
          .host = {.path = 10'000, .bridge = 20'000, .protocol = 5'000},
          .card = {.protocol = 40'000,
                   .memory = {.timing = "ddr4", .latency_cycles = 20, .port_lines = 1}},
          .link = LinkShape{.lanes = 17, .gigatransfers = 32},
          .fabric_switch = {}};
}

Shape with_switch(Shape shape) {
  shape.fabric_switch = SwitchShape{.port = 100'000};
  return shape;
}

/// Of one access on a system that does nothing else.
Picoseconds time_of(const Shape& shape, bool is_write) {
  System system(shape);
  Picoseconds done = 0;
  system.submit({.is_write = is_write, .done = [&](Picoseconds at) { done = at; }}, 0);
  while (done == 0) system.advance();
  return done;
}

TEST(System, TakesTheSumOfAReadsWay) {
  const Picoseconds there = 10'000 + 20'000 + 5'000 + kFlit + 40'000;
  const Picoseconds memory = 20 * 2'500;
  const Picoseconds back = 40'000 + 2 * kFlit + 5'000 + 20'000 + 10'000;
  const Picoseconds taken = time_of(shape_of(1, 1), false);
  EXPECT_GE(taken, there + memory + back);
  EXPECT_LE(taken, there + memory + back + 2 * 2'500) << "memory's cycles are met twice";
}

TEST(System, TakesTheSumOfAWritesWay) {
  const Picoseconds there = 10'000 + 20'000 + 5'000 + 2 * kFlit + 40'000;
  const Picoseconds back = 40'000 + kFlit + 5'000 + 20'000 + 10'000;
  const Picoseconds taken = time_of(shape_of(1, 1), true);
  EXPECT_GE(taken, there + back);
  EXPECT_LE(taken, there + 20 * 2'500 + back);
}

TEST(System, AddsASwitchAndItsFlitsTwice) {
  const Picoseconds plain = time_of(shape_of(1, 1), false);
  const Picoseconds added = time_of(with_switch(shape_of(1, 1)), false) - plain;
  EXPECT_NEAR(static_cast<double>(added), 2 * 100'000 + 3 * kFlit, 2'500);
}

TEST(System, KeepsNoMoreUnderWayThanACardHasCreditsFor) {
  Shape shape = shape_of(1, 1);
  shape.card.credits = 1;
  const Measured one = measure(shape, {.outstanding = 64, .lines = 2'000});
  shape.card.credits = 4;
  const Measured four = measure(shape, {.outstanding = 64, .lines = 2'000});
  // From arrival to answer, the credit's way home, the next message's way here. Most rows are open:
  // a read then takes tRCD less.
  const double loop_ns = 40 + 50 + 40 + 1 + 5 + 1;
  EXPECT_GE(one.gigabytes_per_s, 64 / loop_ns);
  EXPECT_LE(one.gigabytes_per_s, 64 / (loop_ns - 13.75));
  EXPECT_NEAR(four.gigabytes_per_s / one.gigabytes_per_s, 4, 0.2);
}

TEST(System, LetsHostsShareACardAlike) {
  const Traffic traffic{.outstanding = 64, .lines = 10'000};
  const Measured one = measure(with_switch(shape_of(1, 1)), traffic);
  const Measured four = measure(with_switch(shape_of(4, 1)), traffic);
  EXPECT_GE(four.gigabytes_per_s, one.gigabytes_per_s);
  EXPECT_LT(four.gigabytes_per_s, 25.6);
  EXPECT_LT(four.p99_ns, 6 * four.p50_ns) << "nobody waits much longer than the others";
}

TEST(System, IsFasterWithMoreCardsUpToTheHostsLink) {
  const Traffic traffic{.outstanding = 512, .lines = 20'000};
  const double one = measure(with_switch(shape_of(1, 1)), traffic).gigabytes_per_s;
  const double two = measure(with_switch(shape_of(1, 2)), traffic).gigabytes_per_s;
  const double eight = measure(with_switch(shape_of(1, 8)), traffic).gigabytes_per_s;
  const double link = 64.0 * 8 / 9;  // A line in nine eighths of a flit.
  EXPECT_NEAR(two / one, 2, 0.2);
  EXPECT_LE(eight, link);
  EXPECT_GE(eight, 0.85 * link);
}

TEST(System, RepeatsWhatASeedDoes) {
  const Traffic traffic{.outstanding = 32, .write_percent = 30, .is_random = true, .lines = 5'000};
  const Measured first = measure(with_switch(shape_of(2, 3)), traffic);
  const Measured again = measure(with_switch(shape_of(2, 3)), traffic);
  EXPECT_EQ(first.mean_ns, again.mean_ns);
  EXPECT_EQ(first.gigabytes_per_s, again.gigabytes_per_s);
  Traffic other = traffic;
  other.seed = 2;
  EXPECT_NE(measure(with_switch(shape_of(2, 3)), other).mean_ns, first.mean_ns);
}

TEST(System, RefusesShapesThatThereAreNot) {
  Shape shape = shape_of(1, 1);
  shape.card.memory.timing = "core";
  EXPECT_THROW(System{shape}, std::invalid_argument);
  EXPECT_THROW(System{shape_of(0, 1)}, std::invalid_argument);
  EXPECT_THROW(System{shape_of(1, 0)}, std::invalid_argument);
  shape = shape_of(2, 1);
  shape.link.reset();
  EXPECT_THROW(System{shape}, std::invalid_argument) << "memory of one's own is shared with nobody";
}

TEST(System, TimesCommandsFromDoorbellToTheirPoll) {
  const Shape shape = shape_of(1, 1);
  const Picoseconds there = 10'000 + 20'000 + 5'000 + 2 * kFlit + 40'000;
  const Picoseconds poll = time_of(shape, false);
  for (const Picoseconds engine : {0U, 100'000U, 1'234'567U}) {
    const Picoseconds taken = time_command(shape, engine);
    EXPECT_GE(taken, there + engine + poll / 2) << "the answer's way home";
    EXPECT_LE(taken, there + engine + 2 * poll) << "a poll that just missed it, and the next";
  }
}

}  // namespace
}  // namespace nearkv::test

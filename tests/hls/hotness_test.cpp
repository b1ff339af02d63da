// nearkv_hotness against the sketch that the RTL's is tested against.
#include "kernels/hotness.hpp"

#include <gtest/gtest.h>

#include "kernel_list.hpp"
#include "monitor/accesses.hpp"
#include "monitor/sketch.hpp"
#include "support/seed.hpp"

namespace nearkv::hls_test {
namespace {

using rtl_test::some_units;
using rtl_test::Units;

void expect_sketch(const Units& units, unsigned threshold, bool clear, rtl_test::Sketch& sketch) {
  if (clear) sketch.clear();
  const Bursts bursts = to_bursts(std::as_bytes(std::span(units)));
  std::vector<kernels::HotUnit> hot(units.size());
  const int count = nearkv_hotness(bursts.data(), static_cast<int>(units.size()),
                                   static_cast<int>(threshold), clear, hot.data());
  std::size_t found = 0;
  for (const std::uint32_t unit : units) {
    const auto expected = sketch.access(unit, threshold);
    if (!expected) continue;
    ASSERT_LT(found, static_cast<std::size_t>(count));
    ASSERT_EQ(hot[found].unit, expected->unit);
    ASSERT_EQ(hot[found].count, expected->count);
    ++found;
  }
  ASSERT_EQ(found, static_cast<std::size_t>(count));
}

TEST(HotnessTest, CountsFromCallToCall) {
  test::Random random = test::case_random(1);
  rtl_test::Sketch sketch;
  for (unsigned call = 0; call < 12; ++call) {
    SCOPED_TRACE(call);
    const Units units = some_units(20000, call % 22, random);
    expect_sketch(units, 1 + call % 5 * 7, call % 6 == 0, sketch);
    if (HasFatalFailure()) return;
  }
}

// One unit, and two in turn: each finds what the one before it has not written yet.
TEST(HotnessTest, AccessesThatFollowEachOther) {
  rtl_test::Sketch sketch;
  for (const std::uint32_t other : {77u, 78u, 4194303u}) {
    Units units(300, 77);
    for (std::size_t i = 0; i < units.size(); i += 2) units[i] = other;
    expect_sketch(units, 100, true, sketch);
    if (HasFatalFailure()) return;
  }
}

TEST(HotnessTest, CountsStickAtTheLargest) {
  rtl_test::Sketch sketch;
  expect_sketch(Units(20000, 5), 16383, true, sketch);
  expect_sketch(Units(100, 5), 16383, false, sketch);
}

}  // namespace
}  // namespace nearkv::hls_test

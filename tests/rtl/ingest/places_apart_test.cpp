// nkv_places_apart against neighbours of a sorted list: every order of few places, any number of
// them in any order, as many as a list holds; and the cycles that it takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "Vnkv_places_apart.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using Places = std::vector<std::uint32_t>;

bool are_apart(Places places, std::uint32_t extent) {
  std::ranges::sort(places);
  return std::ranges::adjacent_find(places, [extent](std::uint32_t a, std::uint32_t b) {
           return b - a < extent;
         }) == places.end();
}

class PlacesApartTest : public testing::Test {
 protected:
  PlacesApartTest() { unit_.reset(); }

  /// With pauses, or one place a cycle. Stopped after so many cycles of its judgement.
  void judge(const Places& places, std::uint32_t extent, bool pauses = false,
             std::uint64_t most = ~std::uint64_t{0}) {
    unit_->clear_i = 1;
    unit_.tick();
    unit_->clear_i = 0;
    unit_->extent_i = extent;
    for (const std::uint32_t place : places) {
      unit_->put_i = 1;
      unit_->place_i = place;
      unit_.tick();
      unit_->put_i = 0;
      if (pauses) unit_.ticks(static_cast<unsigned>(random_() % 3));
    }
    unit_->judge_i = 1;
    cycles_ = 0;
    while (unit_->done_o == 0 && cycles_ < most) {
      unit_.tick();
      ASSERT_LT(++cycles_, std::uint64_t{1} << 20);
    }
    unit_->judge_i = 0;
    if (most == ~std::uint64_t{0}) {
      ASSERT_EQ(unit_->apart_o != 0, are_apart(places, extent));
    }
  }

  /// Places in order that touch and do not meet, from `first` on.
  static Places row_of(std::size_t count, std::uint32_t extent, std::uint32_t first) {
    Places places(count);
    for (std::size_t i = 0; i < count; ++i) {
      places[i] = first + static_cast<std::uint32_t>(i) * extent;
    }
    return places;
  }

  Simulation<Vnkv_places_apart> unit_;
  test::Random random_ = test::case_random(1);
  std::uint64_t cycles_ = 0;
};

TEST_F(PlacesApartTest, EveryOrderOfFew) {
  for (std::size_t count = 1; count <= 6; ++count) {
    for (const std::uint32_t shift : {0U, 1U}) {
      Places places = row_of(count, 3, 100);
      if (count > 1) places[count / 2] -= shift;  // Meets the one before it.
      std::ranges::sort(places);
      do {
        judge(places, 3);
        if (HasFatalFailure()) return;
      } while (std::ranges::next_permutation(places).found);
    }
  }
}

TEST_F(PlacesApartTest, AnyNumberInAnyOrder) {
  for (unsigned number = 0; number < 3000; ++number) {
    SCOPED_TRACE(number);
    const std::uint32_t extent = test::pick(random_, 1, 40);
    const std::uint32_t count = test::pick(random_, 1, 70);
    Places places = row_of(count, extent, test::pick(random_, 0, 1) != 0 ? 0 : 0xFFFFF000U);
    for (std::uint32_t& place : places) place += number % 3 == 0 ? 0 : test::pick(random_, 0, 1);
    if (number % 2 == 0) std::ranges::shuffle(places, random_);
    judge(places, extent, number % 4 == 1);
    if (HasFatalFailure()) return;
  }
}

TEST_F(PlacesApartTest, StoppedAtAnyMoment) {
  for (unsigned number = 0; number < 300; ++number) {
    Places places = row_of(test::pick(random_, 2, 30), 5, 0);
    std::ranges::shuffle(places, random_);
    judge(places, 5, true, random_() % 150);
    std::ranges::shuffle(places, random_);
    judge(places, 5 + static_cast<std::uint32_t>(random_() % 2));
    if (HasFatalFailure()) return;
  }
}

// A row is known at once; any other order takes 2 cycles an entry and pass, and 4 for each two
// runs.
TEST_F(PlacesApartTest, CyclesOfAWholeList) {
  constexpr std::uint32_t kExtent = 131;
  for (const std::uint32_t count : {3U, 512U, kListPages - 1, kListPages}) {
    Places places = row_of(count, kExtent, 7);
    judge(places, kExtent);
    EXPECT_LE(cycles_, 3U);
    for (const bool reversed : {false, true}) {
      if (reversed)
        std::ranges::sort(places, std::greater{});
      else
        std::ranges::shuffle(places, random_);
      judge(places, kExtent);
      const auto passes = static_cast<unsigned>(std::bit_width(count - 1));
      EXPECT_LE(cycles_, (2 * passes + 4) * std::uint64_t{count} + 4 * passes + 4);
      std::printf("  %u places%s: %llu cycles\n", count, reversed ? ", reversed" : "",
                  static_cast<unsigned long long>(cycles_));
    }
    // Two that meet, anywhere.
    places[test::pick(random_, 0, count - 1)] += 1;
    places[test::pick(random_, 0, count - 1)] -= 1;
    judge(places, kExtent);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

// nkv_copy_places against a comparison of every new place with all others and with every source:
// few pages of any sizes in any order, as many as a list holds; and the cycles that it takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "Vnkv_copy_places.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

struct Extent {
  std::uint64_t first = 0;
  std::uint64_t grains = 1;

  [[nodiscard]] bool meets(const Extent& other) const {
    return first < other.first + other.grains && other.first < first + grains;
  }
};

struct Move {
  Extent source;
  Extent place;
};

bool collide(const std::vector<Move>& moves) {
  for (std::size_t i = 0; i < moves.size(); ++i) {
    for (std::size_t j = 0; j < moves.size(); ++j) {
      if (moves[i].place.meets(moves[j].source)) return true;
      if (i != j && moves[i].place.meets(moves[j].place)) return true;
    }
  }
  return false;
}

class CopyPlacesTest : public testing::Test {
 protected:
  CopyPlacesTest() { unit_.reset(); }

  void put(const std::vector<Move>& moves) {
    unit_->clear_i = 1;
    unit_.tick();
    unit_->clear_i = 0;
    for (const Move& move : moves) {
      unit_->put_i = 1;
      unit_->place_i = static_cast<std::uint32_t>(move.place.first);
      unit_->extent_i = static_cast<std::uint32_t>(move.place.grains);
      give_source(move.source);
      unit_.tick();
      unit_->put_i = 0;
      give_source({});
      unit_.ticks(static_cast<unsigned>(random_() % 3 == 0));
    }
  }

  void give_source(const Extent& source) {
    unit_->source_i = static_cast<std::uint32_t>(source.first);
    unit_->source_grains_i = static_cast<std::uint32_t>(source.grains);
  }

  /// Stopped after so many cycles.
  void judge(const std::vector<Move>& moves, bool expected,
             std::uint64_t most = ~std::uint64_t{0}) {
    put(moves);
    unit_->judge_i = 1;
    cycles_ = 0;
    while (unit_->done_o == 0 && cycles_ < most) {
      const Extent source = moves.at(unit_->page_o).source;
      unit_.tick();
      give_source(source);
      ASSERT_LT(++cycles_, std::uint64_t{1} << 21);
    }
    ASSERT_TRUE(unit_->done_o == 0 || (unit_->collides_o != 0) == expected);
    unit_->judge_i = 0;
    ++(expected ? collided_ : apart_);
  }

  /// Pages that touch each other and do not meet, from `first` on, in any order; every one may be
  /// moved by a grain.
  std::vector<Move> row_of(std::size_t count, std::uint64_t first, std::uint32_t most_grains,
                           bool moves_one) {
    std::vector<Extent> extents(2 * count);
    for (Extent& extent : extents) {
      extent = {first, test::pick(random_, 1, most_grains)};
      first += extent.grains;
    }
    if (moves_one) {
      Extent& moved = extents[test::pick(random_, 0, static_cast<std::uint32_t>(2 * count - 1))];
      moved.first += 1;
    }
    std::ranges::shuffle(extents, random_);
    std::vector<Move> moves(count);
    for (std::size_t i = 0; i < count; ++i) {
      moves[i] = {.source = extents[2 * i], .place = extents[2 * i + 1]};
      // Sources may be one and the same page.
      if (i > 0 && random_() % 8 == 0) moves[i].source = moves[i - 1].source;
    }
    return moves;
  }

  Simulation<Vnkv_copy_places> unit_;
  test::Random random_ = test::case_random(1);
  std::uint64_t cycles_ = 0;
  unsigned collided_ = 0;
  unsigned apart_ = 0;
};

TEST_F(CopyPlacesTest, FewPagesOfAnySizes) {
  for (unsigned number = 0; number < 6000; ++number) {
    SCOPED_TRACE(number);
    const std::uint64_t first = number % 4 == 0 ? 0 : 0xFFFFF000U - 0x10000U * (number % 3);
    const auto moves = row_of(test::pick(random_, 1, 20), first, 12, number % 2 == 0);
    judge(moves, collide(moves));
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(collided_, 1000U);
  EXPECT_GT(apart_, 1000U);
}

// A source that reaches over many places, and one that lies in the middle of a place.
TEST_F(CopyPlacesTest, PagesOfVeryDifferentSizes) {
  constexpr std::uint64_t kLargest = (1 << 25) - 1;
  for (unsigned number = 0; number < 2000; ++number) {
    SCOPED_TRACE(number);
    auto moves = row_of(test::pick(random_, 2, 12), kLargest, 3, false);
    Extent& one = number % 2 == 0 ? moves.front().source : moves.back().place;
    one.grains = test::pick(random_, 1, kLargest);
    one.first = kLargest - one.grains + test::pick(random_, 0, 60);
    judge(moves, collide(moves));
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(collided_, 500U);
  EXPECT_GT(apart_, 20U);
}

TEST_F(CopyPlacesTest, StoppedAtAnyMoment) {
  for (unsigned number = 0; number < 500; ++number) {
    auto moves = row_of(test::pick(random_, 1, 20), 0, 9, false);
    judge(moves, false, random_() % 300);
    moves = row_of(test::pick(random_, 1, 20), 0, 9, number % 2 == 0);
    judge(moves, collide(moves));
    if (HasFatalFailure()) return;
  }
}

// On one side of each other, in order, and in the worst one.
TEST_F(CopyPlacesTest, CyclesOfAWholeList) {
  constexpr std::uint32_t kGrains = 131;
  for (const std::uint32_t count : {4U, 512U, kListPages}) {
    std::vector<Move> moves(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      moves[i].source = {std::uint64_t{count + i} * kGrains, kGrains};
      moves[i].place = {std::uint64_t{i} * kGrains, kGrains};
    }
    const auto bits = static_cast<unsigned>(std::bit_width(count));
    judge(moves, false);
    EXPECT_LE(cycles_, 6U);
    moves[0].source.first = std::uint64_t{3} * count * kGrains;
    moves[0].place.first = moves[0].source.first + kGrains;
    std::ranges::rotate(moves, moves.begin() + 1);
    judge(moves, false);
    const std::uint64_t looked = cycles_;
    EXPECT_LE(looked, std::uint64_t{count} * (3 + 2 * bits) + 6);
    std::ranges::reverse(moves);
    judge(moves, false);
    EXPECT_LE(cycles_, looked + (2 * bits + 4) * std::uint64_t{count} + 4 * bits + 6);
    std::printf("  %u pages: %llu cycles, reversed: %llu\n", count,
                static_cast<unsigned long long>(looked), static_cast<unsigned long long>(cycles_));
    // The last source in the last place, which is the first that was put.
    moves.back().source.first = moves.front().place.first + kGrains - 1;
    judge(moves, true);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

// nkv_midpoints at its limits: what is made and what is sharpened, next to where it sticks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>

#include "Vnkv_midpoints.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using Stage = Simulation<Vnkv_midpoints>;
constexpr unsigned kRows = 8;
constexpr unsigned kTokens = 4;  // Of a beat.
constexpr std::int64_t kLimit = 32767;
constexpr std::int64_t kHidden = -32768;
template <typename T>
using Quad = std::array<std::array<T, kTokens>, kRows>;

// A number whose midpoint lies about a limit, about zero, or anywhere.
std::int64_t random_target(test::Random& random) {
  const auto near = static_cast<std::int64_t>(test::pick(random, 0, 6)) - 3;
  switch (test::pick(random, 0, 4)) {
    case 0:
      return kLimit + near;
    case 1:
      return -kLimit + near;
    case 2:
      return 2 * (random() % 2 == 0 ? kLimit : -kLimit) + near;
    case 3:
      return near;
    default:
      return static_cast<std::int16_t>(random());
  }
}

struct Beat {
  Quad<std::int64_t> sums{};
  std::array<std::int64_t, kRows> offsets{};
  unsigned quad = 0;
  bool last = false;
};

// What section 5.1 or 5.2 makes of a token.
std::int64_t expected(std::int64_t offset, std::int64_t sum, unsigned planes, unsigned shift,
                      bool refining, bool takes_part, std::int64_t stored) {
  if (!takes_part) return refining ? stored : kHidden;
  if (refining && stored == kLimit) return stored;
  const std::int64_t moved = (offset + sum * (1 << (8 - planes))) >> shift;
  return std::clamp(moved + (refining ? stored : 0), -kLimit, kLimit);
}

void expect_midpoints(Stage& stage, bool refining, test::Random& random) {
  const unsigned planes = test::pick(random, 1, 4);
  std::array<unsigned, kRows> shift;
  stage->refining_i = refining;
  stage->planes_i = static_cast<std::uint8_t>(planes);
  stage->page_i[2] = 77;
  stage->tokens_i[2] = random() | random();
  Quad<std::array<std::int64_t, 4>> stored;  // [row][token][quad of the word]
  for (unsigned row = 0; row < kRows; ++row) {
    shift[row] = test::pick(random, 0, 13);
    stage->shift_i[row] = static_cast<std::uint8_t>(shift[row]);
    for (unsigned t = 0; t < kTokens; ++t) {
      for (unsigned q = 0; q < 4; ++q) {
        stored[row][t][q] = std::clamp(random_target(random), kHidden, kLimit);
        stage->stored_i[row][4 * q + t] = static_cast<std::uint16_t>(stored[row][t][q]);
      }
    }
  }
  std::deque<Beat> to_come;
  for (unsigned i = 0; i < 40; ++i) {
    Beat beat;
    beat.quad = i % 16;
    beat.last = i == 39;
    for (unsigned row = 0; row < kRows; ++row) {
      beat.offsets[row] = random_target(random) * (1 << shift[row]) +
                          static_cast<std::int64_t>(random() % (1U << shift[row]));
      for (auto& sum : beat.sums[row]) {
        sum = random() % 2 == 0 ? 0 : static_cast<std::int64_t>(random() % 64) - 32;
      }
      // The largest that 128 channels make, now and then.
      constexpr std::int64_t kLargestOffset = std::int64_t{1} << 28;
      beat.offsets[row] = std::clamp(beat.offsets[row], -kLargestOffset, kLargestOffset);
      const std::int64_t largest_sum = std::int64_t{128 * 1920} * ((1 << planes) - 1);
      if (random() % 8 == 0) beat.sums[row][0] = largest_sum;
      if (random() % 8 == 0) beat.sums[row][1] = -largest_sum;
    }
    to_come.push_back(beat);
  }
  std::deque<Beat> made = to_come;
  bool read_before = false;
  unsigned pages_done = 0;
  for (unsigned i = 0; i < 2000 && !made.empty(); ++i) {
    stage->beat_valid_i = !to_come.empty() && is_willing(random, 5);
    if (!to_come.empty()) {
      // {slot, quad, begins, completes, last}
      stage->beat_i = static_cast<std::uint16_t>(2 << 7 | to_come.front().quad << 3 | 1 << 1 |
                                                 (to_come.front().last ? 1 : 0));
    }
    stage->room_i = is_willing(random, 7);
    stage.settle();
    const bool reads = stage->read_o;
    // Histograms take what is made every other cycle.
    ASSERT_EQ(reads, stage->beat_valid_i && stage->room_i && (refining || !read_before));
    read_before = reads;
    const Beat read = to_come.empty() ? Beat{} : to_come.front();
    if (stage->beat_valid_i && stage->beat_ready_o) to_come.pop_front();
    stage.tick();
    if (reads) {
      for (unsigned row = 0; row < kRows; ++row) {
        stage->offset_i[row] = static_cast<std::uint32_t>(read.offsets[row]) & 0x3fffffff;
        for (unsigned t = 0; t < kTokens; ++t) {
          stage->sum_i[row][t] = static_cast<std::uint32_t>(read.sums[row][t]) & 0x7fffff;
        }
      }
    }
    pages_done += stage->page_done_o;
    if (!stage->write_o) continue;
    const Beat& beat = made.front();
    ASSERT_EQ(stage->write_quad_o, beat.quad);
    ASSERT_EQ(stage->write_page_o, 77);
    for (unsigned row = 0; row < kRows; ++row) {
      for (unsigned t = 0; t < kTokens; ++t) {
        const bool takes_part = (stage->tokens_i[2] >> (4 * beat.quad + t) & 1) != 0;
        ASSERT_EQ(stage->write_visible_o[t], takes_part);
        ASSERT_EQ(static_cast<std::int16_t>(stage->write_data_o[row][t]),
                  expected(beat.offsets[row], beat.sums[row][t], planes, shift[row], refining,
                           takes_part, stored[row][t][beat.quad % 4]))
            << "row " << row << " token " << t << " of quad " << beat.quad;
      }
    }
    made.pop_front();
  }
  EXPECT_TRUE(made.empty());
  EXPECT_EQ(pages_done, 1U);
}

TEST(MidpointsTest, StickAtTheirLimits) {
  Stage stage;
  stage.reset();
  for (unsigned i = 0; i < 200; ++i) {
    SCOPED_TRACE(test::case_name(i));
    test::Random random = test::case_random(i);
    expect_midpoints(stage, i % 2 != 0, random);
    if (HasFailure()) return;
  }
}

TEST(MidpointsTest, WritesNothingThatAResetCutOff) {
  Stage stage;
  stage.reset();
  stage->beat_valid_i = stage->room_i = 1;
  stage.ticks(3);
  stage->beat_valid_i = 0;
  stage.reset();
  for (unsigned i = 0; i < 20; ++i) {
    stage.tick();
    EXPECT_FALSE(stage->write_o);
  }
  test::Random random = test::case_random(7);
  expect_midpoints(stage, false, random);
}

}  // namespace
}  // namespace nearkv::rtl_test

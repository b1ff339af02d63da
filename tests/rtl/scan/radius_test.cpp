// nkv_radius against the model: stored radii for every number of planes, both modes, as fast as
// rows can come.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "Vnkv_radius.h"
#include "number.hpp"
#include "planes.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using Radius = Simulation<Vnkv_radius>;
constexpr unsigned kRows = 8;
constexpr unsigned kChannels = 128;
constexpr std::int64_t kLargestWeight = 1920;

model::RadiusTerms random_terms(test::Random& random) {
  const std::int64_t most = kLargestWeight >> random() % 11;
  const auto channels = static_cast<std::int64_t>(test::pick(random, 0, kChannels));
  const std::int64_t norm =
      channels == 0
          ? 0
          : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(channels * most + 1));
  // Between all weights alike and as few as can be.
  const std::int64_t least = norm * norm / kChannels;
  const std::int64_t largest = std::min(norm * most, kChannels * most * most);
  const std::int64_t squares =
      least +
      static_cast<std::int64_t>(
          random() % static_cast<std::uint64_t>(std::max<std::int64_t>(largest - least, 0) + 1));
  return {.weight_sum = norm,
          .squares = squares,
          .remainder = static_cast<std::int64_t>(random() % (random() % 2 == 0 ? 48897 : 100))};
}

void expect_radii(Radius& radius, unsigned planes, std::optional<std::uint32_t> sixteenths,
                  unsigned pages, bool in_haste, test::Random& random) {
  std::array<int, kRows> shift;
  for (unsigned row = 0; row < kRows; ++row) {
    shift[row] = static_cast<int>(test::pick(random, 0, 13));
    radius->shift_i[row] = static_cast<std::uint8_t>(shift[row]);
  }
  radius->settings_planes_i = static_cast<std::uint8_t>(planes);
  radius->settings_statistical_i = sixteenths.has_value();
  radius->settings_z_i = static_cast<std::uint8_t>(sixteenths.value_or(random() % 256));
  radius.ticks(2);
  std::vector<std::array<model::RadiusTerms, kRows>> terms(pages);
  for (unsigned page = 0; page < pages; ++page) {
    for (unsigned row = 0; row < kRows; ++row) {
      terms[page][row] = random_terms(random);
      radius->terms_page_i = static_cast<std::uint16_t>(page);
      radius->terms_row_i = static_cast<std::uint8_t>(row);
      radius->terms_norm_i = static_cast<std::uint32_t>(terms[page][row].weight_sum);
      radius->terms_squares_i = static_cast<std::uint32_t>(terms[page][row].squares);
      radius->terms_slack_i = static_cast<std::uint16_t>(terms[page][row].remainder);
      radius->terms_valid_i = 1;
      radius.tick();
      radius->terms_valid_i = 0;
      // Four rows every 16 cycles are the most that the fold gives.
      if (row % 4 == 3) radius.ticks(in_haste ? 12 : 12 + test::pick(random, 0, 30));
    }
  }
  ASSERT_TRUE(radius.tick_until([&] { return !radius->busy_o; }, 300));
  for (unsigned page = 0; page < pages; ++page) {
    for (unsigned after = planes; after <= NKV_KEY_PLANES; ++after) {
      radius->read_i = 1;
      radius->read_page_i = static_cast<std::uint16_t>(page);
      radius->read_planes_i = static_cast<std::uint8_t>(after);
      radius.tick();
      radius->read_i = 0;
      for (unsigned row = 0; row < kRows; ++row) {
        // Midpoints::stored_radius, of terms of our own.
        const std::int64_t whole =
            model::radius(terms[page][row], static_cast<int>(after), sixteenths);
        const std::int64_t expected = std::min<std::int64_t>(
            model::floor_shift(whole, shift[row]) + 2 + after - planes, 65535);
        ASSERT_EQ(radius->radius_o[row], expected)
            << "row " << row << " page " << page << " after " << after << " planes";
      }
    }
  }
}

TEST(RadiusTest, StoresRadiiOfBothModes) {
  Radius radius;
  radius.reset();
  for (unsigned i = 0; i < 64; ++i) {
    SCOPED_TRACE(test::case_name(i));
    test::Random random = test::case_random(i);
    const bool statistical = i % 2 == 0;
    expect_radii(
        radius, 1 + i / 2 % 4,
        statistical ? std::optional<std::uint32_t>(test::pick(random, 1, 255)) : std::nullopt,
        i == 0 ? kListPages : 20, i % 3 != 0, random);
    if (HasFatalFailure()) return;
  }
}

TEST(RadiusTest, ForgetsRowsAtReset) {
  Radius radius;
  radius.reset();
  test::Random random = test::case_random(99);
  for (const unsigned cycles : {1U, 10U, 29U, 40U}) {
    radius->settings_planes_i = 1;
    radius->settings_statistical_i = 1;
    radius->settings_z_i = 64;
    radius->terms_squares_i = 12345;
    radius->terms_valid_i = 1;
    for (unsigned row = 0; row < kRows; ++row) {
      radius->terms_row_i = static_cast<std::uint8_t>(row);
      radius.tick();
    }
    radius->terms_valid_i = 0;
    radius.ticks(cycles);
    radius.reset();
    EXPECT_FALSE(radius->busy_o);
    expect_radii(radius, 2, 64, 10, true, random);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

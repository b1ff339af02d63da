// Scores and weights by codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "page_kernels.hpp"

namespace nearkv::test {
namespace {

using PageScoresTest = PageKernelsCase;

std::int64_t squares_of(const ScoreSums& sums) {
  return sums.lower_squares + (std::int64_t{sums.upper_squares} << 16);
}

TEST_P(PageScoresTest, ScoresAndWeights) {
  for (int round = 0; round < 100; ++round) {
    const auto packed = random_numbers<std::uint8_t>(kTokens / 2, 0, 255, random_);
    Numbers<std::uint8_t> factors(kTokens);
    page_kernels().unpack_factors(packed.data(), factors.data());
    expect_same<std::uint8_t>(kTokens, [&](const PageKernels& kernels, std::uint8_t* unpacked) {
      kernels.unpack_factors(packed.data(), unpacked);
    });
    const std::uint64_t some = tokens();
    const auto lengths = random_numbers<std::int32_t>(16, 0, (1 << 30) - 1, random_);
    const auto mean = random_numbers<std::int8_t>(dim() + 64, -128, 127, random_);
    const auto sums_by = [&](const PageKernels& kernels) {
      return kernels.sum_values(mean.data(), dim(), packed.data(), some, lengths.data());
    };
    EXPECT_EQ(sums_by(page_kernels()).squares, sums_by(portable_page_kernels()).squares);
    EXPECT_EQ(sums_by(page_kernels()).lengths, sums_by(portable_page_kernels()).lengths);
    const auto sums = random_numbers<std::int16_t>(kTokens, -16383, 16383, random_);
    expect_same<std::int16_t>(kTokens, [&](const PageKernels& kernels, std::int16_t* numbers) {
      kernels.look_up_some(factors.data(), sums.data(), some, numbers);
    });

    const int range = round % 3 == 0 ? 32767 : 4000;
    const auto above = random_numbers<std::int16_t>(kTokens, -range, range, random_);
    const auto of_values = random_numbers<std::int16_t>(kTokens, -29568, 32767, random_);
    std::array<std::uint64_t, 2> shared{};
    std::size_t which = 0;
    expect_same<std::uint16_t>(kTokens, [&](const PageKernels& kernels, std::uint16_t* shares) {
      shared[which++] = kernels.coded_shares(above.data(), range >> 8, of_values.data(), shares);
    });
    EXPECT_EQ(shared[0], shared[1]);
    const std::int16_t least = number(range);
    std::array<std::size_t, 2> found{};
    which = 0;
    expect_same<std::uint16_t>(kTokens, [&](const PageKernels& kernels, std::uint16_t* own) {
      std::array<std::uint16_t, kTokens + 32> bins;
      found[which] = kernels.bins(above.data(), some, least, 60000, bins.data());
      std::copy_n(bins.data(), found[which++], own);
    });
    EXPECT_EQ(found[0], found[1]);
    EXPECT_EQ(page_kernels().largest(above.data(), some | 1),
              portable_page_kernels().largest(above.data(), some | 1));
  }
}

TEST_P(PageScoresTest, ScoresOfRows) {
  constexpr std::size_t kRows = 3;
  for (int round = 0; round < 100; ++round) {
    const auto factors = random_numbers<std::uint8_t>(kTokens / 2, 0, 255, random_);
    const auto sums = random_numbers<std::int16_t>(kRows * kTokens, -16383, 16383, random_);
    const int most = round % 2 == 0 ? 2000 : 32767;
    const auto multipliers = random_numbers<std::int16_t>(kRows * 16, 0, most, random_);
    const auto noise = random_numbers<std::int32_t>(kRows * 16, 0, 1 << 21, random_);
    std::array<ScoredRow, kRows> rows{};
    for (std::size_t row = 0; row < kRows; ++row) {
      rows[row] = {multipliers.data() + row * 16, noise.data() + row * 16,
                   static_cast<std::int16_t>(random_() % 128)};
    }
    const ScoredPage page{factors.data(), round % 3 == 0 ? ~std::uint64_t{0} : tokens()};
    std::array<std::array<ScoreSums, kRows>, 2> totals{};
    std::array<bool, 2> may_be_loud{};
    std::size_t which = 0;
    expect_same<std::int16_t>(
        kRows * kTokens, [&](const PageKernels& kernels, std::int16_t* above) {
          may_be_loud[which] =
              kernels.score(sums.data(), page, rows.data(), kRows, above, totals[which].data());
          ++which;
        });
    EXPECT_EQ(may_be_loud[0], may_be_loud[1]);
    for (std::size_t row = 0; row < kRows && !may_be_loud[0]; ++row) {
      EXPECT_EQ(totals[0][row].sum, totals[1][row].sum);
      EXPECT_EQ(squares_of(totals[0][row]), squares_of(totals[1][row]));
      EXPECT_EQ(totals[0][row].noise, totals[1][row].noise);
    }
  }
}

TEST_P(PageScoresTest, NumbersOfRows) {
  constexpr std::size_t kCount = 37;
  std::vector<MeanSums> sums(kCount);
  std::vector<ScoreSums> totals(kCount);
  std::vector<std::int32_t> octaves(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    sums[i] = {number(32767) * 512, number(32767) * 512};
    totals[i] = {number(32767) * 32, static_cast<std::int32_t>(random_() % (1U << 22)),
                 static_cast<std::uint32_t>(random_() % (1U << 22)),
                 static_cast<std::uint32_t>(1U << 20) >> random_() % 20};
  }
  const auto powers = random_numbers<std::int32_t>(kCount, -60, 40, random_);
  std::array<bool, 2> are_loud{};
  std::size_t which = 0;
  for (const std::size_t count : {kCount, kCount / 2}) {
    which = 0;
    expect_same<std::int16_t>(kCount, [&](const PageKernels& kernels, std::int16_t* fractions) {
      are_loud[which++] = kernels.mean_logits(
          {sums.data(), powers.data(), 12345678, count, octaves.data(), fractions});
    });
    EXPECT_EQ(are_loud[0], are_loud[1]);
    expect_same<std::int32_t>(kCount, [&](const PageKernels& kernels, std::int32_t* own) {
      Numbers<std::int16_t> fractions(kCount);
      kernels.mean_logits({sums.data(), powers.data(), 12345678, count, own, fractions.data()});
    });
    expect_same<std::int16_t>(2 * kCount, [&](const PageKernels& kernels, std::int16_t* own) {
      kernels.spreads(totals.data(), count, own, own + kCount);
    });
  }
}

TEST_P(PageScoresTest, WeightsOfRows) {
  constexpr std::size_t kRows = 3;
  constexpr std::size_t kLevels = NKV_KEY_CODE_PLANES;
  for (int round = 0; round < 100; ++round) {
    // Scores that reach the ends of 16 bits are exact, and nothing moves them.
    const bool is_exact = round % 3 == 0;
    const int range = is_exact ? 32767 : 4000;
    const auto factors = random_numbers<std::uint8_t>(kTokens / 2, 0, 255, random_);
    const auto above = random_numbers<std::int16_t>(kRows * kTokens, -range, range, random_);
    const auto half =
        random_numbers<std::int16_t>(kRows * kLevels * 16, 0, round % 2 == 0 ? 5909 : 0, random_);
    const auto part = random_numbers<std::int16_t>(kRows * kLevels * 16, 0, 32767, random_);
    std::array<DrawnRow, kRows> rows{};
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t level = 0; level < kLevels; ++level) {
        rows[row].half[level] = half.data() + (row * kLevels + level) * 16;
        rows[row].part[level] = part.data() + (row * kLevels + level) * 16;
      }
      rows[row].mean = number(16000);
    }
    std::array<std::uint64_t, kLevels + 1> refined{};
    std::uint64_t left = round % 4 == 0 ? 0 : tokens();
    for (std::size_t level = 2; level <= kLevels; ++level) {
      refined[level] = left & tokens();
      left &= ~refined[level];
    }
    const std::uint64_t visible = tokens() | 1;
    const DrawnPage page{factors.data(), visible, visible & tokens(),
                         is_exact ? ~std::uint64_t{0} : tokens(), refined.data()};
    std::array<std::array<PageWeight, kRows>, 2> weights{};
    std::size_t which = 0;
    expect_same<std::int16_t>(
        kRows * kTokens, [&](const PageKernels& kernels, std::int16_t* drawn) {
          kernels.weigh(above.data(), page, rows.data(), kRows, drawn, weights[which++].data());
        });
    for (std::size_t row = 0; row < kRows; ++row) {
      EXPECT_EQ(weights[0][row].top, weights[1][row].top);
      EXPECT_EQ(weights[0][row].rest, weights[1][row].rest);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dims, PageScoresTest, testing::ValuesIn(kDims));

}  // namespace
}  // namespace nearkv::test

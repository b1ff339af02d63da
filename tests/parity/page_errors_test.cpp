// Errors by codes, and what they are worth.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "codes/coded_page.hpp"
#include "page_kernels.hpp"

namespace nearkv::test {
namespace {

using PageErrorsTest = PageKernelsCase;

TEST_P(PageErrorsTest, ErrorsOfGranules) {
  constexpr std::size_t kRows = 3;
  const std::size_t granule = granule_tokens(dim());
  for (int round = 0; round < 100; ++round) {
    const int range = round % 4 == 0 ? 12000 : 400;
    const auto drawn =
        random_numbers<std::int16_t>(kRows * kTokens, -8 * range / 3, 8 * range / 3, random_);
    const auto key_factors = random_numbers<std::uint8_t>(kTokens / 2, 0, 255, random_);
    const auto value_factors = random_numbers<std::uint8_t>(kTokens / 2, 0, 255, random_);
    const auto effects = random_numbers<std::int16_t>(kRows * 8 * 16, -160, 2954, random_);
    const auto excess = random_numbers<std::int16_t>(kRows * 2 * 16, -400, 400, random_);
    std::array<ErrorRow, kRows> rows{};
    std::array<KeyRest, kRows> key_rests{};
    std::array<PriceRest, kRows> price_rests{};
    for (std::size_t row = 0; row < kRows; ++row) {
      rows[row].drawn = drawn.data() + row * kTokens;
      for (std::size_t level = 0; level < NKV_KEY_CODE_PLANES; ++level) {
        rows[row].key_effects[level] = &effects[(row * 8 + level) * 16];
        rows[row].value_effects[level] = &effects[(row * 8 + 4 + level) * 16];
      }
      key_rests[row] = {&excess[row * 32], &excess[row * 32 + 16], number(20000)};
      price_rests[row] = {number(20000), number(300)};
    }
    ValueLengths lengths{};
    for (std::size_t i = 0; i < 4 * 16; ++i) {
      lengths.energies[i / 16][i % 16] = number(200);
      lengths.amplitudes[i / 16][i % 16] = number(100);
    }
    std::uint64_t some = tokens();
    if (round % 2 == 0) some &= ~std::uint64_t{0} << granule;
    const auto refined = plane_tokens();
    const auto valued = plane_tokens();
    const ErrorPage page{key_factors.data(), value_factors.data(), tokens(), refined.data()};
    expect_same<std::int16_t>(kRows * kTokens, [&](const PageKernels& kernels, std::int16_t* logs) {
      kernels.key_logs(page, rows.data(), kRows, {some, granule}, logs);
    });
    expect_same<std::int16_t>(
        2 * kRows * kTokens, [&](const PageKernels& kernels, std::int16_t* logs) {
          kernels.value_logs(page, rows.data(), kRows, {some, granule}, lengths, valued.data(),
                             logs, logs + kRows * kTokens);
        });
    expect_same<std::int16_t>(kTokens, [&](const PageKernels& kernels, std::int16_t* errors) {
      kernels.key_errors(page, rows.data(), key_rests.data(), kRows, errors);
    });
    expect_same<std::int16_t>(kTokens, [&](const PageKernels& kernels, std::int16_t* errors) {
      kernels.prices(page, rows.data(), price_rests.data(), kRows, lengths, 2 + round % 2, errors);
    });
    const std::int16_t rest = number(20000);
    EXPECT_EQ(page_kernels().at_least(drawn.data(), rest),
              portable_page_kernels().at_least(drawn.data(), rest));
  }
}

TEST_P(PageErrorsTest, ChosenPlanes) {
  const std::size_t count = kTokens / granule_tokens(dim());
  constexpr PlaneLevels kLevels{
      .most = 4, .least = {0, 0, 8, 43, 74}, .falls = {0, 0, 33, 61, 84}, .row_worth = 16};
  for (int round = 0; round < 100; ++round) {
    auto errors = random_numbers<std::int16_t>(kTokens, -150, 250, random_);
    errors[random_() % count] = round % 2 == 0 ? 32767 : -32767;
    errors[random_() % count] = kNoLog16;
    const auto own = random_numbers<std::uint8_t>(count, 1, 4, random_);
    std::array<ChosenGranules, 2> chosen{};
    std::size_t which = 0;
    const std::int16_t worth = number(150);
    expect_same<std::uint8_t>(count, [&](const PageKernels& kernels, std::uint8_t* planes) {
      chosen[which++] =
          kernels.choose_planes(errors.data(), own.data(), count, kLevels, worth, planes);
    });
    EXPECT_EQ(chosen[0].refined, chosen[1].refined);
    EXPECT_EQ(chosen[0].rowwise, chosen[1].rowwise);
  }
}

TEST_P(PageErrorsTest, WorstGranules) {
  const std::size_t count = kTokens / granule_tokens(dim());
  const std::size_t stride = count + 3;
  for (int round = 0; round < 100; ++round) {
    const std::size_t pages = 1 + random_() % 16;
    const std::size_t rows = 1 + random_() % 9;
    const int range = round % 4 == 0 ? 32767 : 400;
    auto errors = random_numbers<std::int16_t>(pages * rows * count, -range, range, random_);
    for (std::size_t i = 0; i < errors.size(); i += 1 + random_() % 3) errors[i] = kNoLog16;
    std::vector<std::uint32_t> some;
    for (std::uint32_t row = 0; row < rows; ++row) {
      if (row == rows / 2 || random_() % 2 == 0) some.push_back(row);
    }
    const GranuleErrors all{errors.data(), pages, rows, count, some.data(), some.size(), 32};
    std::array<std::vector<std::int16_t>, 2> of_pages;
    std::array<std::vector<std::uint32_t>, 2> counts;
    std::size_t which = 0;
    expect_same<std::int16_t>(pages * stride,
                              [&](const PageKernels& kernels, std::int16_t* largest) {
                                ErrorBins bins{};
                                of_pages[which].resize(pages);
                                kernels.worst(all, largest, stride, of_pages[which].data(), bins);
                                counts[which].assign(kErrorBins + 1, 0);
                                for (const auto& set : bins) {
                                  for (std::size_t bin = 0; bin <= kErrorBins; ++bin)
                                    counts[which][bin] += set[bin];
                                }
                                ++which;
                              });
    EXPECT_EQ(of_pages[0], of_pages[1]);
    EXPECT_EQ(counts[0], counts[1]);
  }
}

TEST_P(PageErrorsTest, TotalsOfErrors) {
  const std::size_t count = kTokens / granule_tokens(dim());
  for (int round = 0; round < 100; ++round) {
    const int range = round % 4 == 0 ? 12000 : 400;
    const std::size_t pages = 1 + random_() % 16;
    const std::size_t rows = 1 + random_() % 9;
    const auto planes = random_numbers<std::uint8_t>(pages * count, 0, 3, random_);
    const auto shares = random_numbers<std::int16_t>(pages * rows * count, -range, range, random_);
    auto logs = random_numbers<std::int16_t>(pages * rows * count, -range, range, random_);
    for (std::size_t g = 0; g < logs.size(); g += 1 + random_() % 5) logs[g] = kNoLog16;
    auto of_keys = random_numbers<std::int32_t>(pages * rows, -900, 900, random_);
    for (std::size_t i = 0; i < of_keys.size(); i += 1 + random_() % 9) of_keys[i] = -(1 << 28);
    const auto of_values = random_numbers<std::int32_t>(pages * rows, -40000, 900, random_);
    const auto of_shares = random_numbers<std::int32_t>(pages * rows, -500, 500, random_);
    const GranuleTerms terms{.keys = logs.data(),
                             .values = logs.data(),
                             .shares = shares.data(),
                             .planes = planes.data(),
                             .of_keys = of_keys.data(),
                             .of_values = (round % 3 == 0 ? of_values : of_shares).data(),
                             .of_shares = of_shares.data(),
                             .pages = pages,
                             .rows = rows,
                             .key_count = count,
                             .value_count = count};
    std::array<std::array<GranuleTotals, 9>, 2> totals{};
    std::size_t which = 0;
    expect_same<std::int16_t>(
        2 * logs.size(), [&](const PageKernels& kernels, std::int16_t* errors) {
          kernels.total(terms, errors, errors + logs.size(), totals[which++].data());
        });
    for (std::size_t row = 0; row < rows; ++row) {
      EXPECT_EQ(totals[0][row].energy, totals[1][row].energy);
      EXPECT_EQ(totals[0][row].coherent, totals[1][row].coherent);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dims, PageErrorsTest, testing::ValuesIn(kDims));

}  // namespace
}  // namespace nearkv::test

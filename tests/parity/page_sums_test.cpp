// Sums over planes, means and values by codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>

#include "codes/code_kernels.hpp"
#include "page_kernels.hpp"

namespace nearkv::test {
namespace {

using PageSumsTest = PageKernelsCase;

TEST_P(PageSumsTest, SumsOverPlanes) {
  for (std::size_t rows = 1; rows <= 9; ++rows) {
    const auto plane = random_numbers<std::uint8_t>(kTokens * dim() / 8, 0, 255, random_);
    const std::size_t count = plane_tables(dim());
    const int largest = static_cast<int>((1U << 14) / count);
    const auto tables =
        random_numbers<std::int16_t>(rows * count * kTableEntries, -largest, largest, random_);
    expect_same<std::int16_t>(rows * kTokens, [&](const PageKernels& kernels, std::int16_t* sums) {
      kernels.plane_sums(plane.data(), dim(), tables.data(), rows, sums);
    });
    std::array<Numbers<std::uint8_t>, 4> planes;
    std::array<const std::uint8_t*, 4> starts{};
    for (std::size_t i = 0; i < 4; ++i) {
      planes[i] = random_numbers<std::uint8_t>(kTokens * dim() / 8, 0, 255, random_);
      starts[i] = planes[i].data();
    }
    const std::size_t padded = padded_channels(dim());
    Numbers<std::int16_t> weights(rows * padded);
    std::vector<std::int32_t> totals(rows);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t c = 0; c < dim(); ++c) {
        weights[row * padded + c] = number(static_cast<int>((1U << 14) / dim()));
        totals[row] += weights[row * padded + c];
      }
    }
    const auto by_planes = plane_tokens();
    expect_same<std::int32_t>(rows * kTokens, [&](const PageKernels& kernels, std::int32_t* sums) {
      kernels.refined_sums({starts.data(), by_planes.data(), dim()},
                           {weights.data(), totals.data(), rows, padded}, sums);
    });
    const auto sums = random_numbers<std::int32_t>(rows * kTokens, -(1 << 18), 1 << 18, random_);
    const auto factors = random_numbers<std::uint8_t>(kTokens / 2, 0, 255, random_);
    const auto own_tables = random_numbers<std::int16_t>(rows + 5 * 16, 0, 4095, random_);
    std::vector<RefinedRow> refined(rows);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t p = 0; p < 5; ++p) refined[row].multipliers[p] = &own_tables[row + 16 * p];
      refined[row].fraction = number(127);
    }
    expect_same<std::int16_t>(rows * kTokens, [&](const PageKernels& kernels, std::int16_t* above) {
      kernels.rescore(sums.data(), factors.data(), by_planes.data(), refined.data(), rows, above);
    });
  }
}

TEST_P(PageSumsTest, ProductsOfMeans) {
  constexpr std::size_t kRows = 5;
  const std::size_t padded = padded_channels(dim());
  const auto mean = random_numbers<std::int8_t>(dim() + 64, -128, 127, random_);
  Numbers<std::int16_t> halves(2 * kRows * padded);
  Numbers<std::int16_t> outputs(kRows * padded);
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t c = 0; c < dim(); ++c) {
      halves[2 * row * padded + c] = number(2048);
      halves[(2 * row + 1) * padded + c] = static_cast<std::int16_t>(random_() % 4096);
      outputs[row * padded + c] = number(32767);
    }
  }
  expect_same<std::int32_t>(2 * kRows, [&](const PageKernels& kernels, std::int32_t* numbers) {
    std::array<MeanSums, kRows> sums{};
    kernels.mean_products(mean.data(), halves.data(), dim(), padded, kRows, sums.data());
    for (const MeanSums& of_row : sums) {
      *numbers++ = of_row.upper;
      *numbers++ = of_row.lower;
    }
  });
  constexpr std::size_t kPages = 7;
  const auto all = random_numbers<std::int8_t>(kPages * dim(), -128, 127, random_);
  std::array<const std::int8_t*, kPages> means{};
  Numbers<std::int64_t> squares(kPages);
  for (std::size_t page = 0; page < kPages; ++page) {
    means[page] = all.data() + page * dim();
    for (std::size_t c = 0; c < dim(); ++c) squares[page] += means[page][c] * means[page][c];
  }
  std::int64_t output_squares = 0;
  for (std::size_t c = 0; c < dim(); ++c) output_squares += outputs[c] * outputs[c];
  Numbers<std::int64_t> products(kPages);
  portable_page_kernels().output_products(means.data(), kPages, outputs.data(), dim(),
                                          products.data());
  expect_same<std::int64_t>(kPages, [&](const PageKernels& kernels, std::int64_t* own) {
    kernels.output_products(means.data(), kPages, outputs.data(), dim(), own);
  });
  // A page whose mean is the output.
  products[3] = squares[3] = output_squares;
  auto powers = random_numbers<std::int32_t>(kPages, -16, 6, random_);
  powers[3] = -5;
  auto spreads = random_numbers<std::int32_t>(kPages, -500, 500, random_);
  for (const int spread : {0, kNothing}) {
    spreads[3] = spreads[5] = spread;
    expect_same<std::int32_t>(kPages, [&](const PageKernels& kernels, std::int32_t* distances) {
      kernels.mean_distances({.products = products.data(),
                              .squares = squares.data(),
                              .powers = powers.data(),
                              .spreads = spreads.data(),
                              .pages = kPages,
                              .output_squares = output_squares,
                              .output_power = -5},
                             distances);
    });
  }
}

TEST_P(PageSumsTest, SumsOfValues) {
  const auto value = random_numbers<std::int32_t>(dim(), -(1 << 24) + 1, (1 << 24) - 1, random_);
  const auto row = random_numbers<std::uint16_t>(dim(), 0, 65535, random_);
  const auto delta4 = random_numbers<std::uint8_t>(2 * dim(), 0, 255, random_);
  expect_same<std::uint16_t>(dim(), [&](const PageKernels& kernels, std::uint16_t* expanded) {
    kernels.expand_delta4(delta4.data(), delta4.data() + dim() / 2, dim(), expanded);
  });
  for (int round = 0; round < 60; ++round) {
    const int shift = static_cast<int>(random_() % 43);
    expect_same<std::int32_t>(dim(), [&](const PageKernels& kernels, std::int32_t* aligned) {
      kernels.align_bf16(row.data(), dim(), 100 + 3 * round, aligned);
    });
    const auto signs = random_numbers<std::int16_t>(dim(), -1, 0, random_);
    for (const int octaves : {-shift, shift % 26}) {
      expect_same<std::int64_t>(dim(), [&](const PageKernels& kernels, std::int64_t* acc) {
        kernels.add_signed(value.data(), signs.data(), dim(), 3922, octaves, 25, acc);
      });
    }
  }
}

TEST_P(PageSumsTest, SumsOfMeans) {
  const auto numbers = random_numbers<std::int8_t>(kPagesOfMeans * dim(), -128, 127, random_);
  std::array<const std::int8_t*, kPagesOfMeans> means{};
  for (std::size_t page = 0; page < means.size(); ++page) {
    means[page] = numbers.data() + page * dim();
  }
  for (std::size_t rows = 1; rows <= 9; ++rows) {
    for (const int last : {0, 42}) {
      const std::size_t pages = 1 + random_() % kPagesOfMeans;
      const auto weights = random_numbers<std::int32_t>(pages * rows, 0, (1 << 18) - 1, random_);
      const auto shifts = random_numbers<std::int32_t>(pages * rows, -16, last, random_);
      expect_same<std::int64_t>(rows * dim(), [&](const PageKernels& kernels, std::int64_t* acc) {
        kernels.add_means({means.data(), weights.data(), shifts.data(), pages, rows, dim()}, acc);
      });
    }
  }
}

TEST_P(PageSumsTest, WeightsOfQueries) {
  for (const int most : {0, 1, 7000, (1 << 29) - 1}) {
    const auto exact = random_numbers<std::int32_t>(dim(), -most, most, random_);
    std::array<RowWeights, 2> made{};
    std::size_t which = 0;
    expect_same<std::int16_t>(dim(), [&](const PageKernels& kernels, std::int16_t* weights) {
      made[which++] = kernels.round_weights(exact.data(), dim(), weights);
    });
    EXPECT_EQ(made[0].power, made[1].power);
    EXPECT_EQ(made[0].length, made[1].length);
    EXPECT_EQ(made[0].total, made[1].total);
  }
}

TEST_P(PageSumsTest, SumsOfWeightedValues) {
  constexpr std::size_t kCount = 16;
  constexpr int kMost = (1 << 24) - 1;
  const auto numbers = random_numbers<std::int32_t>(kCount * dim(), -kMost, kMost, random_);
  std::array<const std::int32_t*, kCount> values{};
  for (std::size_t i = 0; i < kCount; ++i) values[i] = numbers.data() + i * dim();
  for (std::size_t rows = 1; rows <= 9; ++rows) {
    const std::size_t count = 1 + random_() % kCount;
    const auto weights = random_numbers<std::int32_t>(count * rows, 0, (1 << 18) - 1, random_);
    const auto shifts = random_numbers<std::int32_t>(count * rows, 0, 42, random_);
    expect_same<std::int64_t>(rows * dim(), [&](const PageKernels& kernels, std::int64_t* acc) {
      kernels.add_values({values.data(), weights.data(), shifts.data(), count, rows, dim()}, acc);
    });
  }
}

TEST_P(PageSumsTest, TablesOfWeights) {
  const auto weights = random_numbers<std::int16_t>(dim(), -6000, 6000, random_);
  const std::size_t count = plane_tables(dim()) * kTableEntries;
  expect_same<std::int16_t>(count, [&](const PageKernels& kernels, std::int16_t* tables) {
    kernels.tabulate(weights.data(), dim(), tables);
  });
}

TEST_P(PageSumsTest, SumsOfCodedValues) {
  constexpr std::size_t kRows = 4;
  std::array<Numbers<std::uint8_t>, 3> planes;
  for (auto& plane : planes) {
    plane = random_numbers<std::uint8_t>(kTokens * dim() / 8, 0, 255, random_);
  }
  const std::array<const std::uint8_t*, 3> starts = {planes[0].data(), planes[1].data(),
                                                     planes[2].data()};
  for (int round = 0; round < 20; ++round) {
    const auto shares = random_numbers<std::uint16_t>(kRows * kTokens, 0, 17884, random_);
    const auto by_planes = plane_tokens();
    expect_same<std::int32_t>(kRows * dim(), [&](const PageKernels& kernels, std::int32_t* sums) {
      kernels.coded_sums({starts.data(), by_planes.data(), dim()}, shares.data(), kRows, sums);
    });
  }
}

TEST_P(PageSumsTest, Transforms) {
  const std::size_t size = std::bit_floor(dim());
  const auto numbers = random_numbers<std::int32_t>(size, -(1 << 20), 1 << 20, random_);
  expect_same<std::int32_t>(size, [&](const PageKernels& kernels, std::int32_t* own) {
    std::ranges::copy(numbers, own);
    kernels.hadamard(own, size);
  });
}

INSTANTIATE_TEST_SUITE_P(Dims, PageSumsTest, testing::ValuesIn(kDims));

}  // namespace
}  // namespace nearkv::test

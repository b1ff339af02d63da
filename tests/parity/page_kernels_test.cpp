// The inner loops by codes: those of this processor against those of any, on random pages.
#include "codes/page_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <vector>

#include "codes/code_kernels.hpp"
#include "codes/coded_page.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

constexpr std::size_t kTokens = NKV_PAGE_TOKENS;
constexpr std::array<std::size_t, 10> kDims = {16, 48, 64, 80, 96, 128, 192, 256, 512, 576};

/// Allocates for vectors.
template <typename T>
struct VectorAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  VectorAllocator() = default;
  template <typename Other>
  explicit VectorAllocator(const VectorAllocator<Other>& /*other*/) {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), kAlignment));
  }
  void deallocate(T* numbers, std::size_t /*count*/) { ::operator delete(numbers, kAlignment); }
  friend bool operator==(const VectorAllocator&, const VectorAllocator&) { return true; }
};

template <typename T>
using Numbers = std::vector<T, VectorAllocator<T>>;

template <typename T>
Numbers<T> random_numbers(std::size_t count, int least, int most, Random& random) {
  Numbers<T> numbers(count);
  for (T& number : numbers) {
    number = static_cast<T>(least +
                            static_cast<int>(random() % static_cast<unsigned>(most - least + 1)));
  }
  return numbers;
}

std::int64_t squares_of(const ScoreSums& sums) {
  return sums.lower_squares + (std::int64_t{sums.upper_squares} << 16);
}

/// Both ways of each function, on a page's random numbers.
class PageKernelsTest : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    if (avx512_page_kernels() == nullptr) GTEST_SKIP() << "no kernels of its own";
  }

  template <typename T, typename Call>
  void expect_same(std::size_t count, const Call& call) {
    Numbers<T> own(count, T{1});
    Numbers<T> expected = own;
    call(page_kernels(), own.data());
    call(portable_page_kernels(), expected.data());
    EXPECT_TRUE(own == expected);
  }

  [[nodiscard]] std::size_t dim() const { return GetParam(); }
  std::uint64_t tokens() { return random_() & (random_() | random_()); }
  /// Disjoint sets of tokens by planes.
  std::array<std::uint64_t, 5> plane_tokens() {
    std::array<std::uint64_t, 5> sets{};
    for (std::uint64_t left = ~std::uint64_t{0}; std::uint64_t& set : sets) {
      set = left & (random_() % 4 == 0 ? 0 : tokens());
      left &= ~set;
    }
    return sets;
  }
  std::int16_t number(int most) {
    return static_cast<std::int16_t>(
        static_cast<int>(random_() % static_cast<unsigned>(2 * most + 1)) - most);
  }

  Random random_ = case_random(31);
};

TEST_P(PageKernelsTest, SumsOverPlanes) {
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

TEST_P(PageKernelsTest, ProductsOfMeans) {
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

TEST_P(PageKernelsTest, SumsOfValues) {
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

TEST_P(PageKernelsTest, SumsOfMeans) {
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

TEST_P(PageKernelsTest, WeightsOfQueries) {
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

TEST_P(PageKernelsTest, SumsOfWeightedValues) {
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

TEST_P(PageKernelsTest, TablesOfWeights) {
  const auto weights = random_numbers<std::int16_t>(dim(), -6000, 6000, random_);
  const std::size_t count = plane_tables(dim()) * kTableEntries;
  expect_same<std::int16_t>(count, [&](const PageKernels& kernels, std::int16_t* tables) {
    kernels.tabulate(weights.data(), dim(), tables);
  });
}

TEST_P(PageKernelsTest, SumsOfCodedValues) {
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

TEST_P(PageKernelsTest, ScoresAndWeights) {
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

TEST_P(PageKernelsTest, ScoresOfRows) {
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

TEST_P(PageKernelsTest, NumbersOfRows) {
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

TEST_P(PageKernelsTest, WeightsOfRows) {
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

TEST_P(PageKernelsTest, ErrorsOfGranules) {
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

TEST_P(PageKernelsTest, ChosenPlanes) {
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

TEST_P(PageKernelsTest, WorstGranules) {
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

TEST_P(PageKernelsTest, TotalsOfErrors) {
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

TEST_P(PageKernelsTest, Transforms) {
  const std::size_t size = std::bit_floor(dim());
  const auto numbers = random_numbers<std::int32_t>(size, -(1 << 20), 1 << 20, random_);
  expect_same<std::int32_t>(size, [&](const PageKernels& kernels, std::int32_t* own) {
    std::ranges::copy(numbers, own);
    kernels.hadamard(own, size);
  });
}

INSTANTIATE_TEST_SUITE_P(Dims, PageKernelsTest, testing::ValuesIn(kDims));

}  // namespace
}  // namespace nearkv::test

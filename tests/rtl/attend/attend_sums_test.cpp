// nkv_attend_logits and nkv_attend_values against sums by the model's logits and weights.
#include "attend/attend_sums.hpp"

#include <gtest/gtest.h>

namespace nearkv::rtl_test {
namespace {

void expect_sums(AttendSums& sums, const SumsCase& with) {
  const std::vector<RowSums> rows = with.sums();
  for (unsigned row = 0; row < kSumRows; ++row) {
    EXPECT_EQ(sums.reference(row), rows[row].reference) << "row " << row;
    ASSERT_EQ(sums.sums()[row].z, rows[row].z) << "row " << row;
    for (unsigned c = 0; c < with.value_dim; ++c) {
      ASSERT_EQ(sums.sums()[row].acc[c], rows[row].acc[c])
          << "row " << row << " channel " << c << " of " << with.value_dim;
    }
  }
}

void run_cases(unsigned seed, unsigned cases, bool wild) {
  test::Random random = test::case_random(seed);
  AttendSums sums;
  for (unsigned i = 0; i < cases && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    const SumsCase with = random_sums(random, 10, wild);
    sums.run(with, random, i % 2 == 0 ? SumsPaces::all(kPaces[i / 2 % 3]) : SumsPaces::any(random));
    if (!testing::Test::HasFailure()) expect_sums(sums, with);
  }
}

TEST(AttendSumsTest, AnyPages) { run_cases(0, 36, false); }

TEST(AttendSumsTest, OfAnyExponents) { run_cases(3, 24, true); }

TEST(AttendSumsTest, ClearForgetsPages) {
  test::Random random = test::case_random(4);
  AttendSums sums;
  for (unsigned cycles = 1; cycles < 400 && !HasFailure(); cycles += 29) {
    SCOPED_TRACE(testing::Message() << "after " << cycles << " cycles");
    sums.abandon(random_sums(random, 4, false), random, cycles);
    const SumsCase with = random_sums(random, 4, false);
    sums.run(with, random, SumsPaces::all(8));
    if (!HasFailure()) expect_sums(sums, with);
  }
}

// RAW pages of 128 channels, all of whose tokens count or the last ones.
SumsCase full_pages(test::Random& random, std::size_t pages, unsigned tokens) {
  SumsCase with = random_sums(random, 1, false);
  while (with.value_dim != 128 || with.pages[0].form != NKV_ROW_FORM_RAW) {
    with = random_sums(random, 1, false);
  }
  SummedPage page = with.pages[0];
  page.tokens = ~std::uint64_t{0} << (NKV_PAGE_TOKENS - tokens);
  page.nonfinite = 0;
  for (ScoredToken& token : page.scores) token.scores = {};
  with.pages.assign(pages, page);
  return with;
}

TEST(AttendSumsTest, LogitsWaitForRoom) {
  test::Random random = test::case_random(6);
  AttendSums sums;
  SumsCase with = full_pages(random, 6, NKV_PAGE_TOKENS);
  for (SummedPage& page : with.pages) {
    for (ScoredToken& token : page.scores) {
      for (std::int64_t& score : token.scores) score = static_cast<std::int64_t>(random() >> 12);
    }
  }
  sums.run(with, random, {.pages = 8, .scores = 8, .beats = 8, .words = 1});
  expect_sums(sums, with);
}

std::uint64_t cycles_of(std::size_t pages, unsigned tokens) {
  test::Random random = test::case_random(5);
  const SumsCase with = full_pages(random, pages, tokens);
  AttendSums sums;
  const std::uint64_t taken = sums.run(with, random, SumsPaces::all(8));
  expect_sums(sums, with);
  return taken;
}

// Without what the first pages wait for. A word a cycle has four cycles a token, too. There is room
// for the logits of two pages: those of a full page's last tokens come out of their units behind
// that.
TEST(AttendSumsTest, FourCyclesATokenAndTheWayOfALogitAPage) {
  for (const unsigned tokens : {64U, 8U, 1U}) {
    const double each = static_cast<double>(cycles_of(40, tokens) - cycles_of(8, tokens)) / 32;
    RecordProperty("cycles_of_" + std::to_string(tokens), std::to_string(each));
    EXPECT_LE(each, 4.0 * NKV_PAGE_TOKENS + (tokens == 64 ? 22 : 4)) << tokens << " a page";
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

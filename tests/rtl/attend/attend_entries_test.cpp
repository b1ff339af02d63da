// nkv_attend_logits and nkv_attend_values against the model's sums: DENSE, TAIL (sections 4 and 7)
// and BOUNDED with sampled tokens (8.4).
#include "attend/attend_entries.hpp"

#include <gtest/gtest.h>

namespace nearkv::rtl_test {
namespace {

void expect_sums(AttendEntries& entries, const EntryCase& with) {
  const std::vector<model::SampledSums> rows = with.sums();
  for (unsigned row = 0; row < kEntryRows; ++row) {
    EXPECT_EQ(entries.reference(row), rows[row].reference()) << "row " << row;
    for (std::size_t i = 0; i < model::SampledSums::kSums; ++i) {
      const model::SampledSum& got = entries.sums()[row][i];
      const model::SampledSum& wanted = rows[row].sums()[i];
      ASSERT_EQ(got.z, wanted.z) << "row " << row << " sum " << i;
      for (unsigned c = 0; c < with.value_dim; ++c) {
        ASSERT_EQ(got.acc[c], wanted.acc[c])
            << "row " << row << " sum " << i << " channel " << c << " of " << with.value_dim;
      }
    }
  }
}

void run_cases(unsigned seed, unsigned cases, bool is_chosen, bool is_bounded, bool wild) {
  test::Random random = test::case_random(seed);
  AttendEntries entries;
  for (unsigned i = 0; i < cases && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    const EntryCase with = random_entries(random, 10, is_chosen, is_bounded, wild);
    entries.run(with, random,
                i % 2 == 0 ? EntryPaces::all(kPaces[i / 2 % 3]) : EntryPaces::any(random));
    if (!testing::Test::HasFailure()) expect_sums(entries, with);
  }
}

TEST(AttendEntriesTest, Dense) { run_cases(0, 12, false, false, false); }

TEST(AttendEntriesTest, Tail) { run_cases(1, 24, true, false, false); }

TEST(AttendEntriesTest, Sampled) { run_cases(2, 48, true, true, false); }

TEST(AttendEntriesTest, SampledOfAnyExponents) { run_cases(3, 24, true, true, true); }

TEST(AttendEntriesTest, ClearForgetsPages) {
  test::Random random = test::case_random(4);
  AttendEntries entries;
  for (unsigned cycles = 1; cycles < 400 && !HasFailure(); cycles += 29) {
    SCOPED_TRACE(testing::Message() << "after " << cycles << " cycles");
    entries.abandon(random_entries(random, 4, true, true, false), random, cycles);
    const EntryCase with = random_entries(random, 4, true, cycles % 2 == 0, false);
    entries.run(with, random, EntryPaces::all(8));
    if (!HasFailure()) expect_sums(entries, with);
  }
}

// Pages of 128 channels with so many tokens each, sampled ones if it is BOUNDED.
EntryCase full_pages(test::Random& random, std::size_t pages, unsigned tokens, bool is_bounded) {
  const auto random_case = [&] { return random_entries(random, 1, is_bounded, is_bounded, false); };
  EntryCase with = random_case();
  while (with.value_dim != 128 || with.pages[0].form != NKV_ROW_FORM_RAW) with = random_case();
  EntryPage page = with.pages[0];
  page.tokens = ~std::uint64_t{0} << (NKV_PAGE_TOKENS - tokens);
  page.sampled = is_bounded ? page.tokens : 0;
  page.nonfinite = 0;
  page.has_rest = false;
  page.scores.clear();
  page.sample.clear();
  for (unsigned token = NKV_PAGE_TOKENS - tokens; token < NKV_PAGE_TOKENS; ++token) {
    page.scores.push_back({token, {}});
    if (is_bounded) page.sample.push_back({token, 3, 1 + token % 7, {}});
  }
  with.pages.assign(pages, page);
  return with;
}

std::uint64_t sampled_cycles(std::size_t pages, unsigned tokens, bool are_sure) {
  test::Random random = test::case_random(5);
  EntryCase with = full_pages(random, pages, tokens, true);
  for (EntryPage& page : with.pages) {
    for (EntrySample& sampled : page.sample) sampled.halvings = are_sure ? 0 : 1;
  }
  AttendEntries entries;
  const std::uint64_t taken = entries.run(with, random, EntryPaces::all(8));
  expect_sums(entries, with);
  return taken;
}

TEST(AttendEntriesTest, LogitsWaitForRoom) {
  test::Random random = test::case_random(6);
  AttendEntries entries;
  for (const bool is_bounded : {false, true}) {
    EntryCase with = full_pages(random, 6, NKV_PAGE_TOKENS, is_bounded);
    for (EntryPage& page : with.pages) {
      page.has_rest = is_bounded;
      for (EntryToken& token : page.scores) {
        for (std::int64_t& score : token.scores) score = static_cast<std::int64_t>(random() >> 12);
      }
    }
    entries.run(with, random, {.pages = 8, .scores = 8, .sample = 8, .beats = 8, .words = 1});
    if (!HasFailure()) expect_sums(entries, with);
  }
}

// Without what the first pages wait for.
TEST(AttendEntriesTest, SixteenCyclesASampledTokenEightASureOneAndFourAPage) {
  for (const unsigned tokens : {64U, 8U, 2U, 1U}) {
    for (const bool are_sure : {false, true}) {
      const std::uint64_t of_pages =
          sampled_cycles(40, tokens, are_sure) - sampled_cycles(8, tokens, are_sure);
      const double each = static_cast<double>(of_pages) / (32 * tokens);
      RecordProperty("cycles_of_" + std::to_string(tokens), std::to_string(each));
      EXPECT_LE(each, (are_sure ? 8.0 : 16.0) + 4.0 / tokens) << tokens << " a page";
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

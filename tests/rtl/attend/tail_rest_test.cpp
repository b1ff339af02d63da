// nkv_tail_rest against sections 7.2 and 7.3: pages' unread tokens as one token's weight, by the
// model's logits of midpoints.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <vector>

#include "Vnkv_tail_rest_bench.h"
#include "midpoint_logits.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kRows = 8;
constexpr unsigned kTokens = 64;
constexpr unsigned kWordTokens = 16;
constexpr std::int32_t kLimit = 32767;
constexpr std::int64_t kNothing = -(std::int64_t{1} << 31) + 1;

struct RestWeight {
  std::int64_t whole = kNothing;
  std::uint32_t weight = 0;
  bool operator==(const RestWeight&) const = default;
};

using PageMidpoints = std::array<std::array<std::int32_t, kTokens>, kRows>;

struct Case {
  float scale = 0.1F;
  float soft_cap = 0.0F;
  int key_exponent = 127;
  unsigned rows = kRows;
  std::array<int, kRows> query_exponents{};
  std::array<std::int64_t, kRows> references{};
  std::array<int, kRows> shifts{};
  std::vector<PageMidpoints> pages;
  std::vector<std::uint64_t> unread;  // Tokens of each page.

  [[nodiscard]] model::MidpointLogits logits(unsigned row) const {
    return {model::LogitScale(scale, soft_cap, key_exponent), query_exponents[row], references[row],
            shifts[row]};
  }

  /// The highest and the lowest midpoint of a row that is not saturated.
  [[nodiscard]] std::pair<std::int32_t, std::int32_t> range(unsigned row) const {
    std::pair<std::int32_t, std::int32_t> range{-kLimit, kLimit};
    for (const PageMidpoints& page : pages) {
      for (const std::int32_t midpoint : page[row]) {
        if (std::abs(midpoint) == kLimit) continue;
        range.first = std::max(range.first, midpoint);
        range.second = std::min(range.second, midpoint);
      }
    }
    return range;
  }

  [[nodiscard]] RestWeight expected(unsigned row, std::size_t page) const {
    if (row >= rows) return {};
    const model::MidpointLogits of_row = logits(row);
    const auto [highest, lowest] = range(row);
    const std::int64_t reference =
        std::max(model::integer_part(of_row.at(highest)), model::integer_part(of_row.at(lowest)));
    std::uint64_t sum = 0;
    for (unsigned token = 0; token < kTokens; ++token) {
      if ((unread[page] >> token & 1) == 0) continue;
      sum += static_cast<std::uint64_t>(
          model::weight_of(of_row.at(pages[page][row][token]), reference).units());
    }
    if (sum == 0) return {};
    const int bits = static_cast<int>(std::bit_width(sum));
    return {std::clamp(reference + bits - 42, kNothing, -kNothing),
            static_cast<std::uint32_t>(bits >= 18 ? sum >> (bits - 18) : sum << (18 - bits))};
  }
};

// Scores of a usual size, so that logits of midpoints span some tens of octaves; or of any.
Case random_case(test::Random& random, std::size_t pages, bool wild) {
  Case made;
  made.scale = (random() % 4 == 0 ? -1.0F : 1.0F) * 0.01F * static_cast<float>(1 + random() % 40);
  if (random() % 3 == 0) made.soft_cap = 0.5F * static_cast<float>(1 + random() % 80);
  made.key_exponent = 120 + static_cast<int>(random() % 10);
  made.rows = 1 + static_cast<unsigned>(random() % kRows);
  for (unsigned row = 0; row < kRows; ++row) {
    made.query_exponents[row] = (wild ? 80 : 116) + static_cast<int>(random() % (wild ? 80 : 12));
    made.references[row] = static_cast<std::int64_t>(random() % (1 << 22)) - (1 << 21);
    made.shifts[row] = static_cast<int>(random() % 14);
  }
  const std::uint64_t most = std::uint64_t{1} << (wild ? 16 : 10 + random() % 6);
  for (std::size_t i = 0; i < pages; ++i) {
    PageMidpoints page;
    std::uint64_t unread = random() % 4 == 0 ? ~std::uint64_t{0} : random() | random();
    for (unsigned token = 0; token < kTokens; ++token) {
      for (auto& row : page) {
        const auto value =
            static_cast<std::int64_t>(random() % most) - static_cast<std::int64_t>(most / 2);
        row[token] = static_cast<std::int32_t>(std::clamp<std::int64_t>(value, -kLimit, kLimit));
        // Saturated tokens are read.
        if (std::abs(row[token]) == kLimit) unread &= ~(std::uint64_t{1} << token);
      }
    }
    made.pages.push_back(page);
    made.unread.push_back(unread);
  }
  return made;
}

class TailRest : public Simulation<Vnkv_tail_rest_bench> {
 public:
  TailRest() { reset(); }

  void build(const Case& with) {
    (*this)->clear_i = 1;
    tick();
    (*this)->clear_i = 0;
    (*this)->scale_i = std::bit_cast<std::uint32_t>(with.scale);
    (*this)->soft_cap_i = std::bit_cast<std::uint32_t>(with.soft_cap);
    (*this)->key_exponent_i = static_cast<std::uint8_t>(with.key_exponent);
    (*this)->page_sums_i = 1;
    (*this)->rows_i = static_cast<std::uint8_t>(with.rows);
    for (unsigned row = 0; row < kRows; ++row) {
      const auto [highest, lowest] = with.range(row);
      (*this)->query_exponent_i[row] = static_cast<std::uint8_t>(with.query_exponents[row]);
      (*this)->reference_i[row] = static_cast<std::uint32_t>(with.references[row]) & 0x1fffffff;
      (*this)->shift_i[row] = static_cast<std::uint8_t>(with.shifts[row]);
      (*this)->highest_i[row] = static_cast<std::uint16_t>(highest);
      (*this)->lowest_i[row] = static_cast<std::uint16_t>(lowest);
    }
    (*this)->set_i = 1;
    tick();
    (*this)->set_i = 0;
    ASSERT_TRUE(tick_until([this] { return (*this)->set_o != 0; }, 70));
    tick();
    (*this)->start_i = 1;
    tick();
    (*this)->start_i = 0;
    ASSERT_TRUE(tick_until([this] { return (*this)->built_o != 0; }, 1100));
  }

  /// Sends all pages, takes all answers; both sides and the memory willing `pace` times of 8.
  /// Returns the cycles that it took.
  std::uint64_t run(const Case& with, test::Random& random, unsigned pace) {
    std::size_t sent = 0;
    std::size_t answered = 0;
    const std::uint64_t begin = cycles();
    while (answered < with.pages.size()) {
      if (cycles() - begin > with.pages.size() * 400 + 400) {
        ADD_FAILURE() << "hangs after " << answered << " pages";
        return 0;
      }
      // Two cycles after a read was granted its word stands for one cycle.
      (*this)->page_valid_i = sent < with.pages.size() && is_willing(random, pace);
      if (sent < with.pages.size()) {
        (*this)->page_page_i = static_cast<std::uint16_t>(sent);
        (*this)->page_tokens_i = with.unread[sent];
      }
      (*this)->read_ready_i = is_willing(random, pace);
      (*this)->rest_ready_i = is_willing(random, pace);
      show_word(with, random);
      settle();
      if ((*this)->page_valid_i != 0 && (*this)->page_ready_o != 0) ++sent;
      if ((*this)->rest_valid_o != 0 && (*this)->rest_ready_i != 0) {
        for (unsigned row = 0; row < kRows; ++row) {
          const RestWeight got{static_cast<std::int32_t>((*this)->rest_whole_o[row]),
                               (*this)->rest_weight_o[row]};
          const RestWeight wanted = with.expected(row, answered);
          EXPECT_EQ(got.whole, wanted.whole) << "page " << answered << " row " << row;
          EXPECT_EQ(got.weight, wanted.weight) << "page " << answered << " row " << row;
        }
        if (testing::Test::HasFailure()) return 0;
        ++answered;
      }
      granted_.push_back((*this)->read_o != 0 && (*this)->read_ready_i != 0
                             ? static_cast<int>((*this)->read_page_o * 4 + (*this)->read_word_o)
                             : -1);
      granted_.pop_front();
      tick();
    }
    (*this)->page_valid_i = 0;
    return cycles() - begin;
  }

 private:
  void show_word(const Case& with, test::Random& random) {
    const int word = granted_.front();
    for (unsigned row = 0; row < kRows; ++row) {
      for (unsigned token = 0; token < kWordTokens; ++token) {
        (*this)->midpoint_i[row][token] = static_cast<std::uint16_t>(
            word < 0 ? static_cast<std::int32_t>(random())
                     : with.pages[static_cast<std::size_t>(word) / 4][row]
                                 [static_cast<unsigned>(word) % 4 * kWordTokens + token]);
      }
    }
  }

  std::deque<int> granted_{-1, -1};  // Words granted two and one cycles ago.
};

TEST(TailRestTest, WeighsWhatIsNotRead) {
  test::Random random = test::case_random(0);
  TailRest rest;
  for (unsigned i = 0; i < 30 && !HasFailure(); ++i) {
    const Case with = random_case(random, 8, false);
    SCOPED_TRACE(testing::Message() << "case " << i << " scale " << with.scale);
    rest.build(with);
    rest.run(with, random, kPaces[i % 3]);
  }
}

TEST(TailRestTest, AnyExponentsAndSaturatedMidpoints) {
  test::Random random = test::case_random(1);
  TailRest rest;
  for (unsigned i = 0; i < 30 && !HasFailure(); ++i) {
    const Case with = random_case(random, 4, true);
    rest.build(with);
    rest.run(with, random, 8);
  }
}

TEST(TailRestTest, TakesSixteenCyclesAPage) {
  constexpr std::size_t kPages = 64;
  test::Random random = test::case_random(2);
  TailRest rest;
  const Case with = random_case(random, kPages, false);
  rest.build(with);
  EXPECT_LE(rest.run(with, random, 8), kPages * 17 + 60);
}

TEST(TailRestTest, ClearForgetsTheCommandBefore) {
  test::Random random = test::case_random(3);
  TailRest rest;
  const Case before = random_case(random, 4, false);
  rest.build(before);
  rest.run(before, random, 8);
  const Case with = random_case(random, 4, false);
  rest.build(with);
  rest.run(with, random, 8);
}

}  // namespace
}  // namespace nearkv::rtl_test

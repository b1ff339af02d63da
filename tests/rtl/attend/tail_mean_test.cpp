// nkv_tail_mean against sections 7.4 and 8.1: the mean value of a page's unread tokens, or of all
// of them, in words.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "Vnkv_tail_mean.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kChannels = 128;
constexpr unsigned kLanes = 32;
constexpr int kListExponent = 130;
constexpr std::int64_t kValueLimit = (std::int64_t{1} << 24) - 1;

struct MeanPage {
  int page_exponent;
  bool has_mean;
  std::vector<std::array<std::int32_t, kChannels>> exact;
  std::array<std::int32_t, kChannels> sums;
  std::vector<bool> negated = {false};  // Whether it is, each time that the mean is issued.

  [[nodiscard]] std::int32_t expected(unsigned channel, unsigned value_dim, bool is_whole) const {
    if (channel >= value_dim) return 0;
    const int shift = std::min(kListExponent - page_exponent, 31);
    std::int64_t rest = std::int64_t{sums[channel]} >> shift;
    std::int64_t unread = 64;
    if (!is_whole) {
      for (const auto& value : exact) rest -= value[channel];
      unread -= static_cast<std::int64_t>(exact.size());
    }
    const std::int64_t reciprocal = ((1 << 17) / unread + 1) / 2;
    return static_cast<std::int32_t>(
        std::clamp((rest * reciprocal) >> 16, -kValueLimit, kValueLimit));
  }
};

MeanPage random_page(test::Random& random) {
  MeanPage page{
      .page_exponent = kListExponent - static_cast<int>(random() % (random() % 4 == 0 ? 60 : 4)),
      .has_mean = random() % 8 != 0,
      .exact = {},
      .sums = {}};
  const auto value = [&random](std::int64_t most) {
    return static_cast<std::int32_t>(
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 * most + 1)) - most);
  };
  const std::size_t rows = !page.has_mean      ? 64
                           : random() % 2 == 0 ? 0
                                               : random() % (random() % 4 == 0 ? 64 : 4);
  while (page.exact.size() < rows) {
    page.exact.emplace_back();
    for (auto& element : page.exact.back()) element = value(kValueLimit);
  }
  // Sums of values, and what no page would have.
  const std::int64_t most = random() % 8 == 0 ? 0x7fffffff : 64 * (kValueLimit >> random() % 24);
  for (auto& element : page.sums) element = value(most);
  return page;
}

/// Drives pages through the module, each part at a pace of its own.
class TailMean : public Simulation<Vnkv_tail_mean> {
 public:
  explicit TailMean(unsigned value_dim, bool is_whole = false)
      : value_dim_(value_dim), is_whole_(is_whole) {
    reset();
    (*this)->whole_i = is_whole;
    (*this)->list_exponent_i = kListExponent;
    (*this)->value_dim_i = static_cast<std::uint8_t>(value_dim);
  }

  void run(const std::vector<MeanPage>& pages, test::Random& random, unsigned pace) {
    Place exact;
    std::size_t begun = 0, sums = 0, burst = 0, issued = 0;
    Mean means, issues;  // Whose words come out, and start.
    unsigned word = 0, idle = 0;
    while (means.page < pages.size() || begun < pages.size() || exact.page < pages.size()) {
      ASSERT_LT(idle++, 400U) << "page " << means.page;
      // What the page needs: all its parts in order, none before the page itself has begun.
      exact.skip_empty(pages);
      while (sums < pages.size() && !pages[sums].has_mean) ++sums;
      means.skip_none(pages);
      issues.skip_none(pages);
      (*this)->page_valid_i = begun < pages.size() && is_willing(random, pace);
      if ((*this)->page_valid_i) begin(pages[begun]);
      (*this)->exact_valid_i = exact.page < begun && is_willing(random, pace);
      if ((*this)->exact_valid_i) put(pages[exact.page], exact);
      (*this)->sum_valid_i = sums < pages.size() && is_willing(random, pace);
      if ((*this)->sum_valid_i) put_sums(pages[sums], burst);
      settle();
      (*this)->issue_i = (*this)->ready_o && is_willing(random, pace);
      (*this)->negate_i = issues.is_negated(pages);
      (*this)->again_i = issues.is_again(pages);
      settle();
      issued += (*this)->issue_i;
      if ((*this)->issued_last_o) issues.step(pages);
      const bool page_taken = (*this)->page_valid_i && (*this)->page_ready_o;
      const bool sum_taken = (*this)->sum_valid_i && (*this)->sum_ready_o;
      if (page_taken || sum_taken || (*this)->exact_valid_i) idle = 0;
      if ((*this)->word_valid_o) {
        ASSERT_LT(means.page, pages.size());
        expect(pages[means.page], word, means.is_negated(pages));
        if (testing::Test::HasFailure()) return;
        --issued;
        idle = 0;
        word = (*this)->word_last_o ? 0 : word + 1;
        if ((*this)->word_last_o) means.step(pages);
      }
      begun += page_taken;
      if ((*this)->exact_valid_i) exact.step(pages, words());
      if (sum_taken && ++burst == value_dim_ / 16) {
        burst = 0;
        ++sums;
      }
      tick();
    }
    ASSERT_EQ(issued, 0U);
    ASSERT_TRUE(tick_until([&] { return (*this)->idle_o; }, 7));
  }

  /// Pages begin, and are forgotten somewhere on their way.
  void abandon(const std::vector<MeanPage>& pages, unsigned cycles) {
    for (unsigned cycle = 0; cycle < cycles; ++cycle) {
      (*this)->page_valid_i = 1;
      begin(pages[0]);
      (*this)->sum_valid_i = 1;
      settle();
      (*this)->issue_i = (*this)->ready_o;
      tick();
    }
    (*this)->page_valid_i = (*this)->sum_valid_i = (*this)->issue_i = 0;
    (*this)->clear_i = 1;
    tick();
    (*this)->clear_i = 0;
  }

 private:
  /// The next word of exact values.
  struct Place {
    std::size_t page = 0, token = 0;
    unsigned word = 0;

    void skip_empty(const std::vector<MeanPage>& pages) {
      while (page < pages.size() && pages[page].exact.empty()) ++page;
    }
    [[nodiscard]] bool is_last(const MeanPage& of, unsigned words) const {
      return token + 1 == of.exact.size() && word + 1 == words;
    }
    void step(const std::vector<MeanPage>& pages, unsigned words) {
      if (++word < words) return;
      word = 0;
      if (++token < pages[page].exact.size()) return;
      token = 0;
      ++page;
    }
  };

  /// The next mean, of those that are issued again one after the other.
  struct Mean {
    std::size_t page = 0, time = 0;

    void skip_none(const std::vector<MeanPage>& pages) {
      while (page < pages.size() && !pages[page].has_mean) ++page;
    }
    [[nodiscard]] bool is_negated(const std::vector<MeanPage>& pages) const {
      return page < pages.size() && pages[page].negated[time];
    }
    [[nodiscard]] bool is_again(const std::vector<MeanPage>& pages) const {
      return page < pages.size() && time + 1 < pages[page].negated.size();
    }
    void step(const std::vector<MeanPage>& pages) {
      if (is_again(pages)) {
        ++time;
      } else {
        time = 0;
        ++page;
      }
    }
  };

  unsigned value_dim_;
  bool is_whole_;
  [[nodiscard]] unsigned words() const { return (value_dim_ + kLanes - 1) / kLanes; }

  void begin(const MeanPage& page) {
    const std::size_t rows = page.exact.size();
    (*this)->page_rows_i = rows == 64 ? ~0ULL : (1ULL << rows) - 1;
    (*this)->page_rest_i = page.has_mean;
    (*this)->page_exponent_i = static_cast<std::uint8_t>(page.page_exponent);
  }

  void put(const MeanPage& page, const Place& place) {
    (*this)->exact_index_i = static_cast<std::uint8_t>(place.word);
    (*this)->exact_last_i = place.is_last(page, words());
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const std::int32_t value = page.exact[place.token][place.word * kLanes + lane];
      (*this)->exact_i[lane] = static_cast<std::uint32_t>(value) & 0x7ffffff;
    }
  }

  void put_sums(const MeanPage& page, std::size_t burst) {
    for (unsigned i = 0; i < 16; ++i) {
      (*this)->sum_i[i] = static_cast<std::uint32_t>(page.sums[16 * burst + i]);
    }
  }

  void expect(const MeanPage& page, unsigned word, bool is_negated) {
    EXPECT_EQ((*this)->word_index_o, word);
    EXPECT_EQ((*this)->word_last_o, word + 1 == words());
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const auto got = static_cast<std::int32_t>((*this)->word_o[lane] << 5) >> 5;
      const std::int32_t mean = page.expected(word * kLanes + lane, value_dim_, is_whole_);
      EXPECT_EQ(got, is_negated ? -mean : mean)
          << "channel " << word * kLanes + lane << " of " << value_dim_;
    }
  }
};

std::vector<MeanPage> random_pages(test::Random& random, unsigned count) {
  std::vector<MeanPage> pages;
  while (pages.size() < count) pages.push_back(random_page(random));
  return pages;
}

TEST(TailMeanTest, IsTheMeanOfWhatIsNotRead) {
  test::Random random = test::case_random(0);
  for (unsigned i = 0; i < 24 && !HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    TailMean mean(16 * (1 + i % 8));
    mean.run(random_pages(random, 40), random, kPaces[i % 3]);
  }
}

TEST(TailMeanTest, OfWholePagesAgainAndNegated) {
  test::Random random = test::case_random(2);
  for (unsigned i = 0; i < 24 && !HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    TailMean mean(16 * (1 + i % 8), true);
    std::vector<MeanPage> pages = random_pages(random, 40);
    for (MeanPage& page : pages) {
      page.negated.resize(1 + random() % (random() % 4 == 0 ? 30 : 3));
      for (std::size_t time = 0; time < page.negated.size(); ++time) {
        page.negated[time] = random() % 4 != 0;
      }
    }
    mean.run(pages, random, kPaces[i % 3]);
  }
}

TEST(TailMeanTest, ClearForgetsPages) {
  test::Random random = test::case_random(1);
  TailMean mean(128);
  MeanPage unread = random_page(random);
  unread.exact.clear();
  unread.has_mean = true;
  for (unsigned cycles = 1; cycles < 60 && !HasFailure(); ++cycles) {
    SCOPED_TRACE(testing::Message() << "after " << cycles << " cycles");
    mean.abandon({unread}, cycles);
    mean.run(random_pages(random, 6), random, 8);
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

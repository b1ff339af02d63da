// nkv_tail_mean against section 7.4: the mean value of a page's unread tokens, in words.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "Vnkv_tail_mean.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kChannels = 128;
constexpr unsigned kLanes = 32;
constexpr std::int64_t kValueLimit = (std::int64_t{1} << 24) - 1;

struct MeanPage {
  unsigned value_dim;
  unsigned unread;
  int list_exponent;
  int page_exponent;
  std::vector<std::array<std::int32_t, kChannels>> exact;
  std::array<std::int32_t, kChannels> sums;

  [[nodiscard]] std::int32_t expected(unsigned channel) const {
    if (channel >= value_dim) return 0;
    const int shift = std::min(list_exponent - page_exponent, 31);
    std::int64_t rest = std::int64_t{sums[channel]} >> shift;
    for (const auto& value : exact) rest -= value[channel];
    const std::int64_t reciprocal = ((1 << 17) / unread + 1) / 2;
    return static_cast<std::int32_t>(
        std::clamp((rest * reciprocal) >> 16, -kValueLimit, kValueLimit));
  }
};

MeanPage random_page(test::Random& random) {
  MeanPage page{.value_dim = 16 * static_cast<unsigned>(1 + random() % 8),
                .unread = static_cast<unsigned>(1 + random() % 64),
                .list_exponent = 130,
                .page_exponent = 130 - static_cast<int>(random() % (random() % 4 == 0 ? 60 : 4)),
                .exact = {},
                .sums = {}};
  const auto value = [&random](std::int64_t most) {
    return static_cast<std::int32_t>(
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 * most + 1)) - most);
  };
  for (unsigned i = page.unread; i < 64 && i < page.unread + 6; ++i) {
    page.exact.emplace_back();
    for (auto& element : page.exact.back()) element = value(kValueLimit);
  }
  // Sums of values, and what no page would have.
  const std::int64_t most = random() % 8 == 0 ? 0x7fffffff : 64 * (kValueLimit >> random() % 24);
  for (auto& element : page.sums) element = value(most);
  return page;
}

class TailMean : public Simulation<Vnkv_tail_mean> {
 public:
  TailMean() { reset(); }

  void run(const MeanPage& page, bool bank, test::Random& random, unsigned pace) {
    (*this)->bank_i = bank;
    (*this)->tokens_i = static_cast<std::uint8_t>(page.unread);
    (*this)->list_exponent_i = static_cast<std::uint8_t>(page.list_exponent);
    (*this)->page_exponent_i = static_cast<std::uint8_t>(page.page_exponent);
    (*this)->value_dim_i = static_cast<std::uint8_t>(page.value_dim);
    (*this)->begin_i = 1;
    tick();
    (*this)->begin_i = 0;
    const unsigned words = (page.value_dim + kLanes - 1) / kLanes;
    for (const auto& value : page.exact) {
      for (unsigned word = 0; word < words; ++word) {
        while (!is_willing(random, pace)) tick();
        (*this)->exact_valid_i = 1;
        (*this)->exact_index_i = static_cast<std::uint8_t>(word);
        for (unsigned lane = 0; lane < kLanes; ++lane) {
          (*this)->exact_i[lane] =
              static_cast<std::uint32_t>(value[word * kLanes + lane]) & 0x7ffffff;
        }
        tick();
        (*this)->exact_valid_i = 0;
      }
    }
    for (unsigned burst = 0; burst < page.value_dim / 16; ++burst) {
      while (!is_willing(random, pace)) tick();
      (*this)->sum_valid_i = 1;
      for (unsigned i = 0; i < 16; ++i) {
        (*this)->sum_i[i] = static_cast<std::uint32_t>(page.sums[16 * burst + i]);
      }
      settle();
      ASSERT_TRUE((*this)->sum_ready_o);
      tick();
      (*this)->sum_valid_i = 0;
    }
    settle();
    ASSERT_FALSE((*this)->sum_ready_o);
    ASSERT_TRUE(tick_until([&] { return (*this)->words_o == words; }, 7));
    for (unsigned word = 0; word < words; ++word) {
      (*this)->read_bank_i = bank;
      (*this)->read_i = static_cast<std::uint8_t>(word);
      tick();
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        const auto got = static_cast<std::int32_t>((*this)->word_o[lane] << 5) >> 5;
        ASSERT_EQ(got, page.expected(word * kLanes + lane))
            << "channel " << word * kLanes + lane << " of " << page.value_dim;
      }
    }
  }
};

TEST(TailMeanTest, IsTheMeanOfWhatIsNotRead) {
  test::Random random = test::case_random(0);
  TailMean mean;
  for (unsigned i = 0; i < 600 && !HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "page " << i);
    mean.run(random_page(random), i % 2 == 1, random, kPaces[i % 3]);
  }
}

TEST(TailMeanTest, ClearDropsAPage) {
  test::Random random = test::case_random(1);
  TailMean mean;
  mean.run(random_page(random), false, random, 8);
  mean->clear_i = 1;
  mean.tick();
  mean->clear_i = 0;
  mean.run(random_page(random), false, random, 8);
}

}  // namespace
}  // namespace nearkv::rtl_test

// nkv_exact_dot against the model's exact_score.
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "Vnkv_exact_dot.h"
#include "nkv_abi.h"
#include "query.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kRows = 8;
constexpr unsigned kWords = 4;
constexpr unsigned kLanes = 32;
constexpr unsigned kChannels = kWords * kLanes;
constexpr unsigned kLatency = 9;

constexpr std::int32_t kLargestQuery = (1 << 23) - 1;
constexpr std::int32_t kLargestKey = (1 << 26) - 1;

using Channels = std::vector<std::int32_t>;

struct Expected {
  std::uint64_t cycle;
  std::uint8_t tag;
  std::vector<std::int64_t> scores;
};

class Dot : public Simulation<Vnkv_exact_dot> {
 public:
  Dot() { reset(); }

  void load(const std::vector<Channels>& query) {
    query_ = query;
    (*this)->query_valid_i = 1;
    for (unsigned row = 0; row < kRows; ++row) {
      for (unsigned word = 0; word < kWords; ++word) {
        (*this)->query_row_i = static_cast<std::uint8_t>(row);
        (*this)->query_word_i = static_cast<std::uint8_t>(word);
        for (unsigned i = 0; i < kLanes; ++i) {
          (*this)->query_i[i] =
              static_cast<std::uint32_t>(query[row][word * kLanes + i]) & 0xffffff;
        }
        cycle();
      }
    }
    (*this)->query_valid_i = 0;
  }

  // A key of whole words; `pace` of 8 cycles carry one.
  void send(std::uint8_t tag, const Channels& key, test::Random& random, unsigned pace) {
    const auto words = static_cast<unsigned>(key.size()) / kLanes;
    for (unsigned word = 0; word < words; ++word) {
      while (!is_willing(random, pace)) idle(random);
      (*this)->word_valid_i = 1;
      (*this)->word_tag_i = tag;
      (*this)->word_index_i = static_cast<std::uint8_t>(word);
      (*this)->word_last_i = word + 1 == words;
      for (unsigned i = 0; i < kLanes; ++i) {
        (*this)->word_i[i] = static_cast<std::uint32_t>(key[word * kLanes + i]) & 0x7ffffff;
      }
      if ((*this)->word_last_i) expect(tag, key);
      cycle();
    }
    (*this)->word_valid_i = 0;
  }

  void drain() {
    for (unsigned i = 0; i < kLatency + 2; ++i) cycle();
    EXPECT_TRUE(expected_.empty());
  }

  void forget() { expected_.clear(); }

 private:
  void expect(std::uint8_t tag, const Channels& key) {
    Expected expected{cycles() + kLatency, tag, {}};
    for (const Channels& row : query_) {
      expected.scores.push_back(model::exact_score(std::span(row).first(key.size()), key));
    }
    expected_.push_back(expected);
  }

  void idle(test::Random& random) {
    (*this)->word_valid_i = 0;
    (*this)->word_last_i = random() % 2;
    for (unsigned i = 0; i < kLanes; ++i) (*this)->word_i[i] = random() & 0x7ffffff;
    cycle();
  }

  void cycle() {
    tick();
    const bool is_due = !expected_.empty() && expected_.front().cycle == cycles();
    ASSERT_EQ((*this)->score_valid_o, is_due);
    if (!is_due) return;
    ASSERT_EQ((*this)->score_tag_o, expected_.front().tag);
    for (unsigned row = 0; row < kRows; ++row) {
      const auto score = static_cast<std::int64_t>((*this)->score_o[row] << 4) >> 4;
      ASSERT_EQ(score, expected_.front().scores[row]) << "row " << row;
    }
    expected_.pop_front();
  }

  std::vector<Channels> query_;
  std::deque<Expected> expected_;
};

std::int32_t random_integer(test::Random& random, std::int32_t largest) {
  switch (random() % 16) {
    case 0:
      return 0;
    case 1:
      return largest;
    case 2:
      return -largest;
    default: {
      const auto bits = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(largest));
      const std::int32_t scaled = bits >> random() % 24;
      return random() % 2 == 0 ? scaled : -scaled;
    }
  }
}

Channels random_channels(test::Random& random, unsigned count, std::int32_t largest) {
  Channels channels(count);
  for (std::int32_t& channel : channels) channel = random_integer(random, largest);
  return channels;
}

std::vector<Channels> random_query(test::Random& random) {
  std::vector<Channels> query;
  for (unsigned row = 0; row < kRows; ++row) {
    query.push_back(random_channels(random, kChannels, kLargestQuery));
  }
  return query;
}

TEST(ExactDotTest, KeysOfEveryLengthAtEveryPace) {
  for (const unsigned pace : kPaces) {
    test::Random random = test::case_random(pace);
    Dot dot;
    for (unsigned words = 1; words <= kWords; ++words) {
      dot.load(random_query(random));
      for (unsigned i = 0; i < 300; ++i) {
        dot.send(static_cast<std::uint8_t>(random()),
                 random_channels(random, words * kLanes, kLargestKey), random, pace);
        if (HasFatalFailure()) return;
      }
      dot.drain();
    }
  }
}

TEST(ExactDotTest, TheLargestScores) {
  test::Random random = test::case_random(20);
  Dot dot;
  std::vector<Channels> query;
  for (unsigned row = 0; row < kRows; ++row) {
    query.emplace_back(kChannels, row % 2 == 0 ? kLargestQuery : -kLargestQuery);
  }
  dot.load(query);
  dot.send(1, Channels(kChannels, kLargestKey), random, 8);
  dot.send(2, Channels(kChannels, -kLargestKey), random, 8);
  dot.drain();
}

TEST(ExactDotTest, ResetDropsKeysAndKeepsNothingOfTheirSums) {
  test::Random random = test::case_random(21);
  Dot dot;
  dot.load(random_query(random));
  for (unsigned cycles = 1; cycles < 12; ++cycles) {
    dot.send(3, random_channels(random, kChannels, kLargestKey), random, 8);
    dot.forget();
    dot.reset();
    dot.drain();
    dot.send(4, random_channels(random, kChannels, kLargestKey), random, 8);
    dot.drain();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

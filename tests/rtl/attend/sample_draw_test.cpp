// nkv_sample_draw against the model's hash, probabilities and groups.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>

#include "Vnkv_sample_draw.h"
#include "sampling.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr std::size_t kRows = 8;
constexpr std::size_t kTokens = 4;
constexpr unsigned kLatency = 8;
constexpr unsigned kKeyCycles = 15;

/// Four tokens as they should come out, if they do.
struct Expected {
  bool is_valid = false;
  unsigned drawn = 0;
  std::array<int, kTokens> halvings{};
  std::array<std::size_t, kTokens> groups{};
};

class SampleDraw : public Simulation<Vnkv_sample_draw> {
 public:
  SampleDraw() {
    reset();
    (*this)->valid_i = 0;
    (*this)->start_i = 0;
  }

  void start(test::Random& random) {
    seed_ = static_cast<std::uint32_t>(random());
    round_ = test::pick(random, 1, 4);
    rows_ = test::pick(random, 1, kRows);
    (*this)->seed_i = seed_;
    (*this)->round_i = static_cast<std::uint8_t>(round_);
    (*this)->rows_i = static_cast<std::uint8_t>(rows_);
    for (std::size_t row = 0; row < kRows; ++row) {
      thresholds_[row].level = static_cast<int>(test::pick(random, 0, 152));
      (*this)->threshold_i[row] = static_cast<std::uint8_t>(thresholds_[row].level);
    }
    (*this)->start_i = 1;
    tick();
    (*this)->start_i = 0;
    ASSERT_TRUE(tick_until([this] { return (*this)->ready_o != 0; }, kKeyCycles));
  }

  void offer(test::Random& random, std::uint32_t first) {
    Expected expected{.is_valid = true};
    (*this)->valid_i = 1;
    (*this)->token_i = first;
    const unsigned counts = test::pick(random, 0, 15);
    (*this)->counts_i = static_cast<std::uint8_t>(counts);
    for (std::size_t t = 0; t < kTokens; ++t) {
      int halvings = 16;
      for (std::size_t row = 0; row < kRows; ++row) {
        const int near = thresholds_[row].level + static_cast<int>(test::pick(random, 0, 30)) - 2;
        const int level = std::clamp(near, 0, 151);
        (*this)->level_i[row][t] = static_cast<std::uint8_t>(level);
        if (row < rows_) halvings = std::min(halvings, model::halvings_of(level, thresholds_[row]));
      }
      const std::uint32_t hash =
          model::sample_hash(seed_, round_, first + static_cast<std::uint32_t>(t));
      const bool is_drawn = (counts >> t & 1) != 0 && model::is_drawn(hash, halvings);
      expected.drawn |= is_drawn ? 1U << t : 0U;
      expected.halvings[t] = halvings;
      expected.groups[t] = model::group_of(hash);
    }
    step(expected);
  }

  void idle() {
    (*this)->valid_i = 0;
    step({});
  }

  void drain() {
    for (unsigned i = 0; i < kLatency; ++i) idle();
    ASSERT_TRUE(std::ranges::none_of(due_, [](const Expected& e) { return e.is_valid; }));
  }

 private:
  void step(const Expected& offered) {
    due_.push_back(offered);
    tick();
    if (due_.size() < kLatency) return;
    const Expected expected = due_.front();
    due_.pop_front();
    ASSERT_EQ((*this)->valid_o != 0, expected.is_valid);
    if (!expected.is_valid) return;
    ASSERT_EQ((*this)->drawn_o, expected.drawn);
    for (std::size_t t = 0; t < kTokens; ++t) {
      ASSERT_EQ((*this)->halvings_o[t], expected.halvings[t]);
      ASSERT_EQ((*this)->group_o[t], expected.groups[t]);
    }
  }

  std::uint32_t seed_ = 0;
  std::uint32_t round_ = 0;
  std::size_t rows_ = 0;
  std::array<model::Threshold, kRows> thresholds_{};
  std::deque<Expected> due_;
};

TEST(SampleDrawTest, DrawsAsTheModelDoes) {
  test::Random random = test::case_random(0);
  SampleDraw unit;
  for (unsigned round = 0; round < 60 && !testing::Test::HasFatalFailure(); ++round) {
    unit.start(random);
    const bool has_gaps = round % 2 == 1;
    std::uint32_t first = test::pick(random, 0, kListTokens / kTokens - 1) * kTokens;
    for (unsigned i = 0; i < 100 && !testing::Test::HasFatalFailure(); ++i) {
      while (has_gaps && test::pick(random, 0, 2) == 0) unit.idle();
      unit.offer(random, first);
      first = (first + kTokens) % kListTokens;
    }
    unit.drain();
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

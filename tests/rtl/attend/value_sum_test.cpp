// nkv_value_sum against the sums of ARITHMETIC.md section 4, with the model's weights and shifts.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "Vnkv_value_sum.h"
#include "logit.hpp"
#include "number.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kRows = 8;
constexpr unsigned kLanes = 32;
constexpr unsigned kLongestRaise = 7 + 18 * 4;
constexpr unsigned kReadLatency = 3;
constexpr std::int32_t kLargestValue = (1 << 24) - 1;

using Weights = std::array<model::Weight, kRows>;
using Distances = std::array<unsigned, kRows>;

// acc and z as the page says, in 64 bits that wrap.
class Sums {
 public:
  explicit Sums(unsigned channels) : acc_(kRows, std::vector<std::uint64_t>(channels)) {}

  void add(const Weights& weights, const std::vector<std::int32_t>& value) {
    for (unsigned row = 0; row < kRows; ++row) {
      const model::Weight& weight = weights[row];
      if (weight.is_zero()) continue;
      z_[row] += weight.units();
      for (size_t c = 0; c < value.size(); ++c) {
        const std::int64_t term =
            model::floor_shift(weight.mantissa * value[c], static_cast<int>(weight.shift));
        acc_[row][c] += static_cast<std::uint64_t>(term);
      }
    }
  }

  void raise(const Distances& distances) {
    for (unsigned row = 0; row < kRows; ++row) {
      const auto distance = static_cast<int>(distances[row]);
      z_[row] = model::floor_shift(z_[row], distance);
      for (std::uint64_t& sum : acc_[row]) {
        sum = static_cast<std::uint64_t>(
            model::floor_shift(static_cast<std::int64_t>(sum), distance));
      }
    }
  }

  [[nodiscard]] std::uint64_t acc(unsigned row, unsigned channel) const {
    return acc_[row][channel];
  }
  [[nodiscard]] std::int64_t z(unsigned row) const { return z_[row]; }

 private:
  std::vector<std::vector<std::uint64_t>> acc_;
  std::array<std::int64_t, kRows> z_{};
};

class ValueSum : public Simulation<Vnkv_value_sum> {
 public:
  explicit ValueSum(unsigned words) : words_(words), sums_(words * kLanes) {
    (*this)->last_word_i = static_cast<std::uint8_t>(words - 1);
    reset();
  }

  [[nodiscard]] unsigned channels() const { return words_ * kLanes; }

  void add(const Weights& weights, const std::vector<std::int32_t>& value, test::Random& random,
           unsigned pace) {
    sums_.add(weights, value);
    for (unsigned word = 0; word < words_; ++word) {
      (*this)->word_valid_i = 0;
      while (!is_willing(random, pace)) tick();
      (*this)->word_valid_i = 1;
      (*this)->word_index_i = static_cast<std::uint8_t>(word);
      for (unsigned i = 0; i < kLanes; ++i) {
        (*this)->word_i[i] = static_cast<std::uint32_t>(value[word * kLanes + i]) & 0x1ffffff;
      }
      for (unsigned row = 0; row < kRows; ++row) set_weight(row, weights[row]);
      wait_until_ready();
      tick();
    }
    (*this)->word_valid_i = 0;
  }

  void raise(const Distances& distances) {
    sums_.raise(distances);
    (*this)->raise_valid_i = 1;
    for (unsigned row = 0; row < kRows; ++row) {
      (*this)->raise_i[row] = static_cast<std::uint8_t>(distances[row]);
    }
    wait_until_ready();
    tick();
    (*this)->raise_valid_i = 0;
  }

  void clear() {
    wait_until_idle();
    (*this)->clear_i = 1;
    tick();
    (*this)->clear_i = 0;
    sums_ = Sums(channels());
  }

  // Every sum, read one after the other without a gap.
  void check() {
    wait_until_idle();
    for (unsigned row = 0; row < kRows; ++row) {
      ASSERT_EQ((*this)->z_o[row], static_cast<std::uint64_t>(sums_.z(row))) << "row " << row;
    }
    const unsigned places = kRows * channels();
    for (unsigned i = 0; i < places + kReadLatency; ++i) {
      (*this)->read_valid_i = i < places;
      (*this)->read_row_i = static_cast<std::uint8_t>(i / channels());
      (*this)->read_channel_i = static_cast<std::uint8_t>(i % channels());
      ASSERT_EQ((*this)->acc_valid_o, i >= kReadLatency);
      if (i >= kReadLatency) {
        const unsigned place = i - kReadLatency;
        ASSERT_EQ((*this)->acc_o, sums_.acc(place / channels(), place % channels()))
            << "row " << place / channels() << " channel " << place % channels();
      }
      tick();
    }
  }

  void wait_until_ready() {
    ASSERT_TRUE(tick_until([this] { return (*this)->ready_o != 0; }, kLongestRaise));
  }

  void forget() { sums_ = Sums(channels()); }

 private:
  void set_weight(unsigned row, const model::Weight& weight) {
    const bool is_zero = weight.is_zero();
    (*this)->weight_i[row] = is_zero ? 0 : static_cast<std::uint32_t>(weight.mantissa);
    (*this)->shift_i[row] = is_zero ? 0 : static_cast<std::uint8_t>(weight.shift);
    (*this)->units_i[row] = static_cast<std::uint64_t>(weight.units());
  }

  void wait_until_idle() {
    ASSERT_TRUE(tick_until([this] { return (*this)->idle_o != 0; }, kLongestRaise + 8));
  }

  unsigned words_;
  Sums sums_;
};

Weights random_weights(test::Random& random) {
  Weights weights;
  for (model::Weight& weight : weights) {
    weight = {.mantissa = static_cast<std::int64_t>((1 << 17) + random() % (1 << 17)),
              .shift = static_cast<std::int64_t>(random() % 45)};
  }
  return weights;
}

std::vector<std::int32_t> random_value(test::Random& random, unsigned channels) {
  std::vector<std::int32_t> value(channels);
  for (std::int32_t& channel : value) {
    const auto magnitude =
        static_cast<std::int32_t>(random() % (kLargestValue + 1U)) >> random() % 24;
    channel = random() % 2 == 0 ? magnitude : -magnitude;
  }
  return value;
}

Distances random_distances(test::Random& random) {
  Distances distances{};
  for (unsigned& distance : distances) {
    distance = static_cast<unsigned>(random() % 2 == 0 ? 0 : random() % 64 >> random() % 6);
  }
  return distances;
}

TEST(ValueSumTest, TokensOfEveryLengthAtEveryPace) {
  for (unsigned words = 1; words <= 4; ++words) {
    for (const unsigned pace : kPaces) {
      test::Random random = test::case_random(words * 16 + pace);
      ValueSum sum(words);
      for (unsigned i = 0; i < 100; ++i) {
        sum.add(random_weights(random), random_value(random, sum.channels()), random, pace);
      }
      sum.check();
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ValueSumTest, EveryShiftOfTheLargestProducts) {
  test::Random random = test::case_random(1);
  for (const std::int32_t value : {kLargestValue, -kLargestValue, 1, -1}) {
    ValueSum sum(2);
    for (std::int64_t shift = 0; shift < 44; ++shift) {
      Weights weights;
      for (unsigned row = 0; row < kRows; ++row) {
        weights[row] = {.mantissa = row % 2 == 0 ? (1 << 18) - 1 : 1 << 17, .shift = shift};
      }
      sum.add(weights, std::vector<std::int32_t>(sum.channels(), value), random, 8);
    }
    sum.check();
  }
}

TEST(ValueSumTest, RaisesBetweenTokens) {
  for (unsigned words = 1; words <= 4; ++words) {
    test::Random random = test::case_random(words);
    ValueSum sum(words);
    for (unsigned i = 0; i < 100; ++i) {
      sum.add(random_weights(random), random_value(random, sum.channels()), random, 8);
      if (i % 3 == 0) sum.raise(random_distances(random));
      if (i % 20 == 0) sum.check();
      if (HasFatalFailure()) return;
    }
    sum.check();
  }
}

TEST(ValueSumTest, EveryRaise) {
  test::Random random = test::case_random(2);
  ValueSum sum(4);
  for (unsigned distance = 0; distance < 64; ++distance) {
    sum.clear();
    sum.add(random_weights(random), random_value(random, sum.channels()), random, 8);
    Distances distances{};
    distances.fill(distance);
    distances[distance % kRows] = 63 - distance;
    sum.raise(distances);
    sum.check();
    if (HasFatalFailure()) return;
  }
}

TEST(ValueSumTest, ClearForgetsSumsAndResetWhatIsInFlight) {
  test::Random random = test::case_random(3);
  ValueSum sum(3);
  for (unsigned i = 0; i < 20; ++i) {
    sum.add(random_weights(random), random_value(random, sum.channels()), random, 8);
    if (i % 2 == 0) {
      sum.clear();
    } else {
      sum.reset();
      sum->clear_i = 1;
      sum.tick();
      sum->clear_i = 0;
      sum.forget();
    }
    sum.check();
    if (HasFatalFailure()) return;
  }
  sum.raise(random_distances(random));
  sum.add(random_weights(random), random_value(random, sum.channels()), random, 8);
  sum.check();
}

}  // namespace
}  // namespace nearkv::rtl_test

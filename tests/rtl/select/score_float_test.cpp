// nkv_score_float against binary64 itself and the model's rounding, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "Vnkv_score_float.h"
#include "pipe.hpp"
#include "rounding.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr std::int64_t kLargestScore = std::int64_t{1} << 59;
constexpr unsigned kLatency = 14;

// What stands for a whole command.
struct Scaling {
  int exponent;
  float scale;
};

std::uint32_t expected_float(std::int64_t score, const Scaling& scaling) {
  const double value = std::ldexp(static_cast<double>(score), scaling.exponent - 301) *
                       static_cast<double>(scaling.scale);
  return std::bit_cast<std::uint32_t>(model::nearest_binary32(value));
}

class ScoreFloat : public Pipe<Vnkv_score_float, std::int64_t> {
 public:
  ScoreFloat() : Pipe(kLatency) {}

  // Only while nothing is on its way.
  void set(const Scaling& scaling) {
    scaling_ = scaling;
    (*this)->exponent_i = static_cast<std::uint16_t>(scaling.exponent) & 0x7ff;
    (*this)->scale_i = std::bit_cast<std::uint32_t>(scaling.scale);
  }

  void send(std::int64_t score) {
    (*this)->score_i = static_cast<std::uint64_t>(score) & ((std::uint64_t{1} << 60) - 1);
    send_expecting(score);
  }

 private:
  void check(const std::int64_t& score) override {
    ASSERT_EQ((*this)->float_o, expected_float(score, scaling_))
        << "score " << score << " exponent " << scaling_.exponent << " scale " << scaling_.scale;
  }

  Scaling scaling_{};
};

class ScoreFloatTest : public testing::Test {
 protected:
  // Sends scores `pace` times of 8 and expects each, in its cycle.
  void expect_all(const std::vector<std::int64_t>& scores, const Scaling& scaling,
                  unsigned pace = 8) {
    module_.set(scaling);
    for (const std::int64_t score : scores) {
      while (!is_willing(random_, pace)) module_.cycle();
      module_.send(score);
      if (HasFatalFailure()) return;
    }
    module_.drain();
  }

  ScoreFloat module_;
  test::Random random_ = test::case_random(1);
};

// Scores at which something is rounded, carried, or tied.
std::vector<std::int64_t> edge_scores() {
  std::vector<std::int64_t> scores{0, 1, -1, kLargestScore - 1, -kLargestScore};
  for (int bit = 1; bit < 59; ++bit) {
    for (const std::int64_t low : {-2, -1, 0, 1, 2}) {
      const std::int64_t score = (std::int64_t{1} << bit) + low;
      scores.push_back(score);
      scores.push_back(-score);
      // Ties of the first rounding: half a unit of 53 bits, with an even and an odd neighbour.
      if (bit > 53) {
        for (const std::int64_t odd : {0, 1}) {
          scores.push_back(score + (odd << (bit - 52)) + (std::int64_t{1} << (bit - 53)));
        }
      }
    }
    scores.push_back((std::int64_t{1} << 59) - (std::int64_t{1} << bit));
  }
  return scores;
}

TEST_F(ScoreFloatTest, EdgesOfScoresAndScales) {
  const float scales[] = {1.0F,
                          -1.0F,
                          0.08838834764F,
                          std::numeric_limits<float>::min(),
                          std::numeric_limits<float>::max(),
                          -std::numeric_limits<float>::max(),
                          std::nextafter(1.0F, 2.0F),
                          std::nextafter(2.0F, 1.0F)};
  for (const float scale : scales) {
    for (const int exponent : {-300, -1, 0, 1, 2, 254, 300, 301, 508, 800}) {
      expect_all(edge_scores(), {exponent, scale});
      if (HasFatalFailure()) return;
    }
  }
}

// The result's exponent runs through the subnormal numbers and past both ends.
TEST_F(ScoreFloatTest, EveryExponentOfTheResult) {
  for (int exponent = -300; exponent <= 800; ++exponent) {
    std::vector<std::int64_t> scores;
    for (int bit = 0; bit < 59; ++bit) {
      const std::uint64_t below = (std::uint64_t{1} << bit) - 1;
      scores.push_back(static_cast<std::int64_t>((std::uint64_t{1} << bit) | (random_() & below)));
      scores.push_back(std::int64_t{1} << bit);
      scores.push_back(static_cast<std::int64_t>(std::uint64_t{1} << bit | below));
    }
    expect_all(scores, {exponent, exponent % 2 == 0 ? 1.0F : -1.5F});
    if (HasFatalFailure()) return;
  }
}

TEST_F(ScoreFloatTest, RandomScoresAndScalesWithGaps) {
  for (unsigned round = 0; round < 3000; ++round) {
    const std::uint32_t pattern = (test::pick(random_, 0, 1) << 31) |
                                  (test::pick(random_, 1, 254) << 23) |
                                  test::pick(random_, 0, 0x7fffff);
    // Mostly where results are finite and not zero.
    const int exponent = 301 + 127 - static_cast<int>(pattern >> 23 & 0xff) - 120 +
                         static_cast<int>(test::pick(random_, 0, 160));
    std::vector<std::int64_t> scores;
    for (unsigned i = 0; i < 30; ++i) {
      const std::int64_t score = static_cast<std::int64_t>(random_()) >> test::pick(random_, 4, 63);
      // Low bits that are all zeros or ones make ties and near ties.
      const std::int64_t mask = (std::int64_t{1} << test::pick(random_, 0, 40)) - 1;
      scores.push_back(i % 3 == 0 ? score : i % 3 == 1 ? score & ~mask : score | mask);
    }
    expect_all(scores, {exponent, std::bit_cast<float>(pattern)}, kPaces[round % 3]);
    if (HasFatalFailure()) return;
  }
}

// Halves of the last place of the result, reached exactly and missed by one unit of binary64.
TEST_F(ScoreFloatTest, TiesOfTheLastRounding) {
  std::vector<std::int64_t> scores;
  for (int i = 0; i < 2000; ++i) {
    const auto significand = static_cast<std::int64_t>((random_() & 0xffffff) | 0x800000);
    const std::int64_t tie = (2 * significand + 1) << 28;
    for (const std::int64_t off : {-1, 0, 1}) scores.push_back(tie + off);
  }
  expect_all(scores, {301, 1.0F});
  // The same below the normal numbers, and at the edge to infinity.
  for (int exponent = 90; exponent < 160; ++exponent) {
    expect_all(scores, {exponent, 1.0F});
    if (HasFatalFailure()) return;
  }
  const std::int64_t edge = (std::int64_t{1} << 53) - (std::int64_t{1} << 28);
  for (int exponent = 370; exponent < 380; ++exponent) {
    expect_all({edge - 1, edge, edge + 1, -edge}, {exponent, 1.0F});
  }
}

// Scores of 59 bits next to a tie of the last rounding, where that of the first one decides; with
// one rounding instead of two, some would differ.
TEST_F(ScoreFloatTest, FirstRoundingDecidesTies) {
  std::vector<std::int64_t> scores;
  for (int i = 0; i < 500; ++i) {
    const auto significand = static_cast<std::int64_t>((random_() & 0xffffff) | 0x800000);
    const std::int64_t tie = (2 * significand + 1) << 34;
    for (std::int64_t off = -40; off <= 40; ++off) scores.push_back(tie + off);
  }
  expect_all(scores, {301, 1.0F});
}

// Products that lie a bit of their 77 above half a unit of binary64 above a tie of the last
// rounding: score = ((2t + 1) << 52 | 1 << 23 | 1) / scale for the t that divides, or all of it by
// two.
TEST_F(ScoreFloatTest, SecondRoundingDecidesTies) {
  __extension__ typedef unsigned __int128 Wide;
  unsigned found = 0;
  for (unsigned trial = 0; trial < 4000; ++trial) {
    const std::uint64_t factor = 0x800000 | (random_() & 0x7fffff) | 1;
    const int half = trial % 2 == 0 ? 52 : 51;
    const auto tie = [&](std::uint64_t t) {
      return (Wide{2 * t + 1} << half) + (Wide{1} << (half - 29)) + 1;
    };
    // tie(t) grows by `step` per t, modulo the factor: its inverse by Euclid's algorithm.
    const auto modulus = static_cast<std::int64_t>(factor);
    const auto step = static_cast<std::int64_t>((Wide{1} << (half + 1)) % factor);
    std::int64_t inverse = 1;
    std::int64_t next_inverse = 0;
    for (std::int64_t a = step, b = modulus; b != 0;) {
      const std::int64_t quotient = a / b;
      a = std::exchange(b, a - quotient * b);
      inverse = std::exchange(next_inverse, inverse - quotient * next_inverse);
    }
    inverse = (inverse % modulus + modulus) % modulus;
    const auto start = static_cast<std::int64_t>(tie(0) % factor);
    const std::int64_t t = (modulus - start) % modulus * inverse % modulus;
    ASSERT_EQ(static_cast<std::uint64_t>(tie(static_cast<std::uint64_t>(t)) % factor), 0U);
    const auto score = static_cast<std::int64_t>(tie(static_cast<std::uint64_t>(t)) / factor);
    if (t < 0x800000 || std::bit_width(static_cast<std::uint64_t>(score)) != 53) continue;
    ++found;
    const auto scale =
        std::bit_cast<float>(0x3f800000 | static_cast<std::uint32_t>(factor & 0x7fffff));
    expect_all({score - 1, score, score + 1, -score}, {301, scale});
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(found, 100U);
}

TEST_F(ScoreFloatTest, ResetDropsWhatIsInside) {
  module_->valid_i = 1;
  module_->score_i = 12345;
  module_->scale_i = std::bit_cast<std::uint32_t>(1.0F);
  module_.ticks(kLatency / 2);
  module_->valid_i = 0;
  module_.reset();
  for (unsigned i = 0; i < 2 * kLatency; ++i) {
    module_.tick();
    ASSERT_FALSE(module_->valid_o);
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

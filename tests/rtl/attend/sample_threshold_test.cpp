// nkv_sample_threshold against the model's thresholds.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>

#include "Vnkv_sample_threshold.h"
#include "sampling.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLongest = 168;
constexpr unsigned kLogBits = 42;

using Counts = std::array<std::uint32_t, model::Levels::kLevels>;

std::int64_t signed_log(std::uint64_t bits) {
  return static_cast<std::int64_t>(bits << (64 - kLogBits)) >> (64 - kLogBits);
}

model::Levels levels_of(const Counts& counts) {
  model::Levels levels;
  for (std::size_t level = 0; level < counts.size(); ++level) {
    for (std::uint32_t i = 0; i < counts[level]; ++i) levels.count(static_cast<int>(level));
  }
  return levels;
}

class SampleThreshold : public Simulation<Vnkv_sample_threshold> {
 public:
  SampleThreshold() {
    reset();
    (*this)->clear_i = 0;
  }

  void start(const Counts& counts, std::optional<std::int64_t> limit) {
    counts_ = counts;
    (*this)->first_i = !limit;
    (*this)->limit_i = static_cast<std::uint64_t>(limit.value_or(0)) & ((1ULL << kLogBits) - 1);
    (*this)->start_i = 1;
    step();
    (*this)->start_i = 0;
  }

  /// A cycle in which the count that was read comes.
  void step() {
    settle();
    const bool reads = (*this)->read_o != 0;
    const std::size_t level = (*this)->read_level_o;
    tick();
    (*this)->count_i = reads ? counts_[level] : 0xFFFF;
    settle();
  }

  void abort() {
    (*this)->clear_i = 1;
    step();
    (*this)->clear_i = 0;
  }

  void check(const Counts& counts, std::optional<std::int64_t> limit) {
    const model::Levels levels = levels_of(counts);
    const model::Threshold expected = limit ? levels.within(*limit) : levels.first();
    start(counts, limit);
    unsigned cycles = 0;
    while ((*this)->done_o == 0 && cycles++ < kLongest) step();
    ASSERT_LT(cycles, kLongest);
    EXPECT_EQ((*this)->level_o, expected.level);
    EXPECT_EQ(signed_log((*this)->log_variance_o), expected.log_variance);
    step();
    ASSERT_EQ((*this)->done_o, 0);
  }

 private:
  Counts counts_{};
};

Counts random_counts(test::Random& random) {
  Counts counts{};
  std::uint32_t left = test::pick(random, 0, 5) == 0 ? 200 : kListTokens;
  const std::uint32_t centre = test::pick(random, 0, 151);
  const std::uint32_t width = test::pick(random, 1, 60);
  for (int i = 0; i < 400 && left > 0; ++i) {
    const std::uint32_t level =
        std::min(centre + test::pick(random, 0, width), model::Levels::kLevels - 1U);
    const std::uint32_t more = std::min(left, test::pick(random, 1, i % 7 == 0 ? 2000 : 30));
    counts[level] += more;
    left -= more;
  }
  return counts;
}

TEST(SampleThresholdTest, FirstRounds) {
  test::Random random = test::case_random(0);
  SampleThreshold unit;
  for (unsigned i = 0; i < 400 && !HasFatalFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    unit.check(random_counts(random), std::nullopt);
  }
}

TEST(SampleThresholdTest, LaterRounds) {
  test::Random random = test::case_random(1);
  SampleThreshold unit;
  for (unsigned i = 0; i < 400 && !HasFatalFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    const Counts counts = random_counts(random);
    // Below what some other threshold of these counts would leave, by anything.
    const std::int64_t start = levels_of(counts).first().log_variance;
    const std::int64_t step = random() >> 32 >> test::pick(random, 0, 30);
    unit.check(counts, std::max(start - step, -(std::int64_t{1} << 40) - 1));
    unit.check(counts, start);
  }
}

TEST(SampleThresholdTest, NothingAndAllInOneLevel) {
  SampleThreshold unit;
  for (const std::size_t level : {0UL, 1UL, 63UL, 64UL, 65UL, 150UL, 151UL}) {
    for (const std::uint32_t tokens : {0U, 1U, 95U, 96U, 191U, 192U, 193U, kListTokens}) {
      Counts counts{};
      counts[level] = tokens;
      unit.check(counts, std::nullopt);
      for (const std::int64_t limit : {std::int64_t{0}, -(std::int64_t{1} << 40),
                                       -(std::int64_t{1} << 40) - 1, std::int64_t{1} << 29}) {
        unit.check(counts, limit);
      }
    }
  }
}

TEST(SampleThresholdTest, ClearAndResetInFlight) {
  test::Random random = test::case_random(2);
  SampleThreshold unit;
  for (unsigned cycles = 0; cycles < 170 && !HasFatalFailure(); cycles += 3) {
    unit.start(random_counts(random), std::nullopt);
    for (unsigned i = 0; i < cycles; ++i) unit.step();
    if (cycles % 2 == 0) {
      unit.abort();
    } else {
      unit.reset();
    }
    unit.check(random_counts(random), std::nullopt);
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

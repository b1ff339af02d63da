// nkv_sample_bound against the model's bound of the same sums.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "Vnkv_sample_bound.h"
#include "sampled_sums.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using model::SampledSums;

constexpr unsigned kScaleCycles = 8;
constexpr unsigned kLatency = 23;
constexpr unsigned kLogBits = 42;
constexpr std::uint64_t kLogMask = (std::uint64_t{1} << kLogBits) - 1;
constexpr std::uint32_t kOutputMask = (1U << 26) - 1;

std::int64_t signed_log(std::uint64_t bits) {
  return static_cast<std::int64_t>(bits << (64 - kLogBits)) >> (64 - kLogBits);
}

/// A row's sums, and what else its bound depends on.
struct Case {
  std::array<model::SampledSum, SampledSums::kSums> sums;
  std::uint32_t sixteenths;
  std::int64_t log_error;

  [[nodiscard]] std::int64_t total() const {
    std::int64_t total = 0;
    for (const model::SampledSum& sum : sums) total += sum.z;
    return total;
  }

  [[nodiscard]] std::int64_t output(std::size_t channel) const {
    std::int64_t acc = 0;
    for (const model::SampledSum& sum : sums) acc += sum.acc[channel];
    return total() > 0 ? model::output_integer(acc, total()) : 0;
  }
};

class SampleBound : public Simulation<Vnkv_sample_bound> {
 public:
  SampleBound() {
    (*this)->valid_i = 0;
    (*this)->start_i = 0;
    (*this)->clear_i = 0;
    reset();
  }

  void start(const Case& asked) {
    (*this)->total_i = static_cast<std::uint64_t>(asked.total());
    (*this)->sixteenths_i = static_cast<std::uint8_t>(asked.sixteenths);
    (*this)->log_error_i = static_cast<std::uint64_t>(asked.log_error) & kLogMask;
    (*this)->start_i = 1;
    tick();
    (*this)->start_i = 0;
    ASSERT_TRUE(tick_until([this] { return (*this)->ready_o != 0; }, kScaleCycles));
  }

  void offer(std::int64_t sum, std::int64_t output, bool is_last) {
    (*this)->valid_i = 1;
    (*this)->sum_i = static_cast<std::uint64_t>(sum);
    (*this)->output_i = static_cast<std::uint32_t>(output) & kOutputMask;
    (*this)->last_i = is_last;
    tick();
    (*this)->valid_i = 0;
    (*this)->sum_i = 0x5555555555555555;
    (*this)->output_i = 0x1555555;
  }

  void offer_all(const Case& asked, test::Random* gaps) {
    const std::size_t channels = asked.sums[0].acc.size();
    const auto offer_seven = [&](auto number, std::int64_t output, bool is_last) {
      for (std::size_t s = 1; s < SampledSums::kSums; ++s) {
        while (gaps != nullptr && test::pick(*gaps, 0, 2) == 0) tick();
        offer(number(asked.sums[s]), output, is_last && s + 1 == SampledSums::kSums);
      }
    };
    offer_seven([](const model::SampledSum& sum) { return sum.z; }, -1, false);
    for (std::size_t c = 0; c < channels; ++c) {
      offer_seven([&](const model::SampledSum& sum) { return sum.acc[c]; }, asked.output(c),
                  c + 1 == channels);
    }
  }

  void check(const Case& asked, test::Random* gaps) {
    const model::LogBound expected =
        SampledSums(asked.sums).bound(asked.sixteenths, asked.log_error - (std::int64_t{1} << 24));
    start(asked);
    offer_all(asked, gaps);
    ASSERT_TRUE(tick_until([this] { return (*this)->done_o != 0; }, kLatency));
    ASSERT_EQ((*this)->known_o != 0, expected.has_value());
    if (expected) {
      ASSERT_EQ(signed_log((*this)->log_bound_o), *expected);
    }
    ASSERT_EQ((*this)->bound_o, std::bit_cast<std::uint32_t>(model::number_of(expected)));
    tick();
    ASSERT_EQ((*this)->done_o, 0);
  }
};

std::int64_t random_number(test::Random& random, unsigned bits) {
  return static_cast<std::int64_t>(random()) >> (63 - bits);
}

/// Sums whose groups are `fine` bits smaller than the state.
Case random_case(test::Random& random) {
  Case made{.sums = {},
            .sixteenths = test::pick(random, 1, 255),
            .log_error = -static_cast<std::int64_t>(random() >> 37)};
  const unsigned fine = test::pick(random, 0, 30);
  const unsigned z_bits = test::pick(random, fine + 1, 57);
  const unsigned acc_bits = test::pick(random, fine + 1, 57);
  const std::size_t channels = test::pick(random, 1, 20);
  for (std::size_t s = 0; s < made.sums.size(); ++s) {
    const unsigned less = s == 0 ? 0 : fine;
    made.sums[s].z = random_number(random, z_bits - less);
    if (s == 0 && test::pick(random, 0, 7) != 0) made.sums[s].z = std::abs(made.sums[s].z);
    for (std::size_t c = 0; c < channels; ++c) {
      made.sums[s].acc.push_back(random_number(random, acc_bits - less));
    }
  }
  return made;
}

TEST(SampleBoundTest, AnySums) {
  test::Random random = test::case_random(0);
  SampleBound unit;
  for (unsigned i = 0; i < 3000 && !testing::Test::HasFatalFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    unit.check(random_case(random), i % 2 == 0 ? nullptr : &random);
  }
}

TEST(SampleBoundTest, GroupsThatAgreeAndOutputsThatVanish) {
  test::Random random = test::case_random(1);
  SampleBound unit;
  for (unsigned i = 0; i < 300 && !testing::Test::HasFatalFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    Case made = random_case(random);
    for (std::size_t s = 1; s < made.sums.size(); ++s) {
      made.sums[s].z = i % 3 == 0 ? 0 : made.sums[1].z;
      made.sums[s].acc = made.sums[1].acc;
    }
    if (i % 2 == 0) {
      for (std::size_t c = 0; c < made.sums[0].acc.size(); ++c) {
        made.sums[0].acc[c] = -7 * made.sums[1].acc[c];
      }
    }
    unit.check(made, nullptr);
    made.sums[3].acc[0] += std::int64_t{1} << 40;
    made.sums[4].acc[0] -= std::int64_t{1} << 40;
    unit.check(made, nullptr);
  }
}

TEST(SampleBoundTest, WithoutAnyWeightLeftThereIsNone) {
  test::Random random = test::case_random(3);
  SampleBound unit;
  for (unsigned i = 0; i < 50 && !testing::Test::HasFatalFailure(); ++i) {
    Case made = random_case(random);
    made.sums[0].z -= made.total() + i % 2;
    unit.check(made, nullptr);
    for (model::SampledSum& sum : made.sums) sum = {.z = 0, .acc = {0, 0}};
    unit.check(made, nullptr);
  }
}

TEST(SampleBoundTest, ClearAndResetInFlight) {
  test::Random random = test::case_random(2);
  SampleBound unit;
  for (unsigned i = 0; i < 60 && !testing::Test::HasFatalFailure(); ++i) {
    unit.start(random_case(random));
    const Case given_up = random_case(random);
    if (i % 3 == 0) unit.offer_all(given_up, nullptr);
    for (unsigned beats = 0; beats < i && i % 3 != 0; ++beats) unit.offer(1 << 20, 5, false);
    unit.ticks(i % 7);
    if (i % 2 == 0) {
      unit->clear_i = 1;
      unit.tick();
      unit->clear_i = 0;
    } else {
      unit.reset();
    }
    unit.check(random_case(random), nullptr);
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

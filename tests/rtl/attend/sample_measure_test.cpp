// nkv_sample_measure against the model's bounds of the sums that it reads.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "Vnkv_sample_measure.h"
#include "number.hpp"
#include "sampled_sums.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using model::SampledSums;
using RowSums = std::array<model::SampledSum, SampledSums::kSums>;

constexpr unsigned kRows = 8;
constexpr unsigned kReadLatency = 3;
constexpr unsigned kLogBits = 42;
constexpr std::int64_t kOctave = std::int64_t{1} << 24;
constexpr unsigned kUsualSixteenths = 32;

std::int64_t signed_log(std::uint64_t bits) {
  return static_cast<std::int64_t>(bits << (64 - kLogBits)) >> (64 - kLogBits);
}

std::int64_t log2_of(float error) {
  const model::Number number = model::decode_binary32(std::bit_cast<std::uint32_t>(error));
  if (number.significand == 0) return model::kNoError;
  return model::log2_fixed(static_cast<std::uint64_t>(number.significand)) +
         (number.exponent - 150) * kOctave;
}

struct Case {
  std::vector<RowSums> rows;
  std::size_t dim = 0;
  std::uint32_t sixteenths = 0;
  float error = 0.0f;

  [[nodiscard]] model::LogBound bound(std::size_t row) const {
    return SampledSums(rows[row]).bound(sixteenths == 0 ? kUsualSixteenths : sixteenths,
                                        log2_of(error) - kOctave);
  }
};

class SampleMeasure : public Simulation<Vnkv_sample_measure> {
 public:
  SampleMeasure() {
    (*this)->start_i = 0;
    (*this)->clear_i = 0;
    reset();
  }

  void start(const Case& asked) {
    asked_ = &asked;
    (*this)->rows_i = static_cast<std::uint8_t>(asked.rows.size());
    (*this)->value_dim_i = static_cast<std::uint8_t>(asked.dim);
    (*this)->sixteenths_i = static_cast<std::uint8_t>(asked.sixteenths);
    (*this)->error_i = std::bit_cast<std::uint32_t>(asked.error);
    (*this)->start_i = 1;
    cycle();
    (*this)->start_i = 0;
  }

  void cycle() {
    settle();
    std::uint64_t answer = noise_();
    if ((*this)->read_valid_o) answer = asked_sum();
    tick();
    (*this)->acc_i = late_[cycles() % late_.size()];
    late_[cycles() % late_.size()] = answer;
  }

  /// Cycles until done.
  unsigned check(const Case& asked) {
    start(asked);
    const std::uint64_t began = cycles();
    for (unsigned i = 0; i < 20000 && !(*this)->done_o; ++i) cycle();
    EXPECT_EQ((*this)->done_o, 1);
    const auto taken = static_cast<unsigned>(cycles() - began);
    cycle();
    EXPECT_EQ((*this)->done_o, 0);
    check_answers(asked);
    return taken;
  }

  void check_answers(const Case& asked) {
    const std::int64_t log_error = log2_of(asked.error);
    EXPECT_EQ(signed_log((*this)->log_error_o), log_error);
    bool all_within = true;
    for (std::size_t row = 0; row < asked.rows.size(); ++row) {
      const model::LogBound bound = asked.bound(row);
      all_within = all_within && bound && *bound <= log_error;
      EXPECT_EQ((*this)->known_o[row] != 0, bound.has_value()) << "row " << row;
      if (bound) {
        EXPECT_EQ(signed_log((*this)->log_bound_o[row]), *bound) << "row " << row;
      }
      EXPECT_EQ((*this)->bound_o[row], std::bit_cast<std::uint32_t>(model::number_of(bound)));
    }
    EXPECT_EQ((*this)->all_within_o != 0, all_within);
  }

 private:
  [[nodiscard]] std::uint64_t asked_sum() {
    const model::SampledSum& sum = asked_->rows.at((*this)->read_row_o).at((*this)->read_sum_o);
    return static_cast<std::uint64_t>((*this)->read_z_o ? sum.z
                                                        : sum.acc.at((*this)->read_channel_o));
  }

  const Case* asked_ = nullptr;
  test::Random noise_ = test::case_random(99);
  std::array<std::uint64_t, kReadLatency - 1> late_{};
};

std::int64_t random_number(test::Random& random, unsigned bits) {
  return static_cast<std::int64_t>(random()) >> (63 - bits);
}

/// A row whose groups are `fine` bits smaller than its state.
RowSums random_row(test::Random& random, std::size_t dim, unsigned fine) {
  RowSums sums;
  const unsigned z_bits = test::pick(random, fine + 1, 57);
  const unsigned acc_bits = test::pick(random, fine + 1, 57);
  for (std::size_t s = 0; s < sums.size(); ++s) {
    const unsigned less = s == 0 ? 0 : fine;
    sums[s].z = random_number(random, z_bits - less);
    if (s == 0 && random() % 16 != 0) sums[s].z = std::abs(sums[s].z);
    for (std::size_t c = 0; c < dim; ++c) {
      sums[s].acc.push_back(random() % 16 == 0 ? 0 : random_number(random, acc_bits - less));
    }
  }
  return sums;
}

Case random_case(test::Random& random) {
  Case made{.rows = {},
            .dim = 16 * test::pick(random, 1, 8),
            .sixteenths = test::pick(random, 0, 255),
            .error = std::ldexp(1.0f + static_cast<float>(random() % 1024) / 1024.0f,
                                -static_cast<int>(random() % 40))};
  const unsigned rows = test::pick(random, 1, kRows);
  for (unsigned row = 0; row < rows; ++row) {
    made.rows.push_back(random_row(random, made.dim, test::pick(random, 0, 30)));
  }
  return made;
}

TEST(SampleMeasureTest, AnySums) {
  test::Random random = test::case_random(0);
  SampleMeasure unit;
  for (unsigned i = 0; i < 150 && !HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    unit.check(random_case(random));
  }
}

TEST(SampleMeasureTest, SmallOutputsAndLargeOnes) {
  test::Random random = test::case_random(1);
  SampleMeasure unit;
  for (unsigned bits = 1; bits < 58 && !HasFailure(); ++bits) {
    SCOPED_TRACE(testing::Message() << "bits " << bits);
    Case made = random_case(random);
    for (RowSums& row : made.rows) {
      for (model::SampledSum& sum : row) {
        sum.z = std::abs(random_number(random, 30)) >> 3;
        for (std::int64_t& acc : sum.acc) acc = random_number(random, bits);
      }
    }
    unit.check(made);
  }
}

TEST(SampleMeasureTest, OutputsWithoutRemainder) {
  test::Random random = test::case_random(7);
  SampleMeasure unit;
  for (unsigned i = 0; i < 10 && !HasFailure(); ++i) {
    Case made = random_case(random);
    for (RowSums& row : made.rows) {
      const std::int64_t total = static_cast<std::int64_t>((random() >> 44) | 1) << 24;
      for (std::size_t s = 1; s < row.size(); ++s) {
        row[s].z = row[s].z % total;
        row[0].z = s == 1 ? total - row[s].z : row[0].z - row[s].z;
      }
      for (std::size_t c = 0; c < made.dim; ++c) {
        const std::int64_t whole = (c % 2 == 0 ? total : -total) >> c % 24;
        for (std::size_t s = 1; s < row.size(); ++s) {
          row[s].acc[c] = row[s].acc[c] % total;
          row[0].acc[c] = (s == 1 ? whole : row[0].acc[c]) - row[s].acc[c];
        }
      }
    }
    unit.check(made);
  }
}

TEST(SampleMeasureTest, EveryRowHasToBeWithinTheError) {
  test::Random random = test::case_random(2);
  SampleMeasure unit;
  unsigned within = 0;
  for (unsigned i = 0; i < 120 && !HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    Case made = random_case(random);
    made.dim = 16;
    made.error = 0x1p-6f;
    made.sixteenths = 8;
    for (RowSums& row : made.rows) {
      row = random_row(random, made.dim, 20);
      row[0].z |= std::int64_t{1} << 55;
      for (std::int64_t& acc : row[0].acc) acc |= std::int64_t{1} << 55;
    }
    if (i % 3 == 1) made.rows[i % made.rows.size()] = random_row(random, made.dim, 0);
    if (i % 3 == 2) made.rows[i % made.rows.size()][0].z = -(std::int64_t{1} << 56);
    unit.check(made);
    within += unit->all_within_o;
  }
  EXPECT_GT(within, 30U);
  EXPECT_LT(within, 60U);
}

TEST(SampleMeasureTest, GroupsThatAgree) {
  test::Random random = test::case_random(3);
  SampleMeasure unit;
  for (unsigned i = 0; i < 20 && !HasFailure(); ++i) {
    Case made = random_case(random);
    for (RowSums& row : made.rows) {
      for (std::size_t s = 1; s < row.size(); ++s)
        row[s] = i % 2 == 0 ? row[1] : model::SampledSum{};
      for (std::size_t s = 1; s < row.size() && i % 2 != 0; ++s) row[s].acc.resize(made.dim);
      row[0].z = std::int64_t{1} << 60;
    }
    if (i % 4 == 3) made.error = 0.0f;
    unit.check(made);
    EXPECT_EQ(unit->all_within_o, 1);
  }
}

TEST(SampleMeasureTest, EveryKindOfError) {
  test::Random random = test::case_random(4);
  SampleMeasure unit;
  Case made = random_case(random);
  made.dim = 16;
  made.sixteenths = 0;
  for (RowSums& row : made.rows) row = random_row(random, made.dim, 3);
  for (const float error :
       {0.0f, 0x1p-127f, 0x1p-126f, 1.0f, std::numeric_limits<float>::max(),
        std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
        std::nextafter(1.0f, 0.0f), 0.05f}) {
    made.error = error;
    unit.check(made);
  }
}

TEST(SampleMeasureTest, WhatItTakes) {
  test::Random random = test::case_random(5);
  SampleMeasure unit;
  for (unsigned i = 0; i < 10; ++i) {
    const Case made = random_case(random);
    const auto rows = static_cast<unsigned>(made.rows.size());
    EXPECT_EQ(unit.check(made), rows * (8 * static_cast<unsigned>(made.dim) + 77));
  }
}

TEST(SampleMeasureTest, ClearAndResetInFlight) {
  test::Random random = test::case_random(6);
  SampleMeasure unit;
  for (unsigned i = 0; i < 150 && !HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    const Case given_up = random_case(random);
    unit.start(given_up);
    const unsigned cycles = i < 100 ? i : test::pick(random, 0, 1500);
    for (unsigned c = 0; c < cycles; ++c) unit.cycle();
    if (i % 2 == 0) {
      unit->clear_i = 1;
      unit.cycle();
      unit->clear_i = 0;
    } else {
      unit.reset();
    }
    unit.check(random_case(random));
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

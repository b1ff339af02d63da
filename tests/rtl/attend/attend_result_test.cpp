// nkv_attend_result: what it writes of sums that it reads, against the model's outputs, LSEs and
// totals.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "Vnkv_attend_result.h"
#include "rounding.hpp"
#include "sampled_sums.hpp"
#include "simulation.hpp"
#include "softmax.hpp"

namespace nearkv::rtl_test {
namespace {

using model::SampledSums;

constexpr unsigned kRows = 8;
constexpr unsigned kReadLatency = 3;
constexpr unsigned kBurstWords = 16;
constexpr std::uint64_t kAddress = 0x12340;
constexpr unsigned kQuotientCycles = 60;  // In which what a clear gave up comes to its end.

/// A row's sums, of which only the first counts unless the result is of groups.
struct Row {
  std::array<model::SampledSum, SampledSums::kSums> sums;
  std::int32_t reference = 0;
  std::uint32_t bound = 0;
};

struct Case {
  std::vector<Row> rows;
  unsigned dim = 0;
  bool bf16 = false;
  bool base2 = false;
  bool grouped = false;
  unsigned value_exponent = 0;

  [[nodiscard]] model::RowSoftmax total(const Row& row) const {
    if (!grouped) return {row.reference, row.sums[0].z, row.sums[0].acc};
    std::int64_t z = 0;
    for (const model::SampledSum& sum : row.sums) z += sum.z;
    return {row.reference, z > 0 ? z : 1, {}};
  }

  [[nodiscard]] std::vector<float> output(const Row& row) const {
    const auto exponent = static_cast<int>(value_exponent);
    return grouped ? SampledSums(row.sums).total().output(exponent) : total(row).output(exponent);
  }

  /// Words by address.
  [[nodiscard]] std::map<std::uint64_t, std::uint32_t> expected() const {
    std::vector<std::uint32_t> words;
    for (const Row& row : rows) append_output(output(row), &words);
    words.resize((words.size() + kBurstWords - 1) / kBurstWords * kBurstWords);
    const std::size_t outputs = rows.size() * dim / (bf16 ? 2 : 1);
    std::map<std::uint64_t, std::uint32_t> made;
    for (std::size_t i = 0; i < outputs; ++i) made[kAddress + 4 * i] = words[i];
    const std::uint64_t sums = kAddress + 4 * words.size();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      made[sums + 4 * i] = std::bit_cast<std::uint32_t>(total(rows[i]).log_sum_exp(base2));
      made[sums + 4 * (kBurstWords + i)] = grouped ? rows[i].bound : 0;
    }
    return made;
  }

 private:
  void append_output(const std::vector<float>& output, std::vector<std::uint32_t>* words) const {
    for (std::size_t c = 0; c < output.size(); c += bf16 ? 2 : 1) {
      words->push_back(bf16 ? model::round_to_bf16(output[c]) |
                                  std::uint32_t{model::round_to_bf16(output[c + 1])} << 16
                            : std::bit_cast<std::uint32_t>(output[c]));
    }
  }
};

class AttendResult : public Simulation<Vnkv_attend_result> {
 public:
  AttendResult() {
    (*this)->clear_i = 0;
    (*this)->start_i = 0;
    (*this)->acc_valid_i = 0;
    (*this)->write_ready_i = 0;
    reset();
  }

  void start(const Case& asked) {
    asked_ = asked;
    written_.clear();
    (*this)->address_i = kAddress;
    (*this)->rows_i = static_cast<std::uint8_t>(asked.rows.size());
    (*this)->value_dim_i = static_cast<std::uint8_t>(asked.dim);
    (*this)->bf16_i = asked.bf16;
    (*this)->base2_i = asked.base2;
    (*this)->grouped_i = asked.grouped;
    (*this)->value_exponent_i = static_cast<std::uint8_t>(asked.value_exponent);
    for (std::size_t i = 0; i < asked.rows.size(); ++i) {
      (*this)->reference_i[i] = static_cast<std::uint32_t>(asked.rows[i].reference);
      (*this)->bound_i[i] = asked.rows[i].bound;
      (*this)->z_i[i] = static_cast<std::uint64_t>(asked.rows[i].sums[0].z);
    }
    ASSERT_EQ((*this)->busy_o, 0);
    (*this)->start_i = 1;
    tick();
    (*this)->start_i = 0;
    // The next command's stand there now.
    (*this)->grouped_i = !asked.grouped;
    (*this)->bf16_i = !asked.bf16;
    for (unsigned i = 0; i < kRows; ++i) (*this)->bound_i[i] = 0x3f800000;
  }

  void cycle(test::Random& random, unsigned pace) {
    const bool is_due = !answers_.empty() && answers_.front().cycle == cycles();
    (*this)->acc_valid_i = is_due;
    (*this)->acc_i = is_due ? answers_.front().sum : random();
    if (is_due) answers_.pop_front();
    (*this)->read_ready_i = is_willing(random, pace);
    (*this)->write_ready_i = is_willing(random, pace);
    settle();
    if ((*this)->read_valid_o && (*this)->read_ready_i) {
      answers_.push_back({cycles() + kReadLatency, asked_sum()});
    }
    if ((*this)->write_valid_o && (*this)->write_ready_i) take_write();
    tick();
  }

  /// Cycles until all has been written, which is checked.
  unsigned check(const Case& asked, test::Random& random, unsigned pace) {
    start(asked);
    const std::uint64_t began = cycles();
    const unsigned limit = 100000;
    while ((*this)->busy_o && cycles() - began < limit && !testing::Test::HasFatalFailure()) {
      cycle(random, pace);
    }
    EXPECT_LT(cycles() - began, limit);
    const auto expected = asked.expected();
    EXPECT_EQ(written_.size(), expected.size());
    for (const auto& [address, word] : expected) {
      EXPECT_TRUE(written_.contains(address) && written_[address] == word)
          << "word " << (address - kAddress) / 4 << " is " << written_[address] << ", not " << word;
    }
    return static_cast<unsigned>(cycles() - began);
  }

 private:
  struct Answer {
    std::uint64_t cycle;
    std::uint64_t sum;
  };

  std::uint64_t asked_sum() {
    const model::SampledSum& sum = asked_.rows.at((*this)->read_row_o).sums.at((*this)->read_sum_o);
    EXPECT_TRUE(asked_.grouped || ((*this)->read_sum_o == 0 && (*this)->read_z_o == 0));
    return static_cast<std::uint64_t>((*this)->read_z_o ? sum.z
                                                        : sum.acc.at((*this)->read_channel_o));
  }

  void take_write() {
    const std::uint64_t address = (*this)->write_address_o;
    for (unsigned i = 0; i < kBurstWords; ++i) {
      const unsigned lanes = (*this)->write_strobes_o >> (4 * i) & 15;
      ASSERT_TRUE(lanes == 0 || lanes == 15);
      if (lanes == 0) continue;
      ASSERT_FALSE(written_.contains(address + 4 * i));
      written_[address + 4 * i] = (*this)->write_data_o[i];
    }
  }

  Case asked_;
  std::deque<Answer> answers_;
  std::map<std::uint64_t, std::uint32_t> written_;
};

std::int64_t random_number(test::Random& random, unsigned bits) {
  return static_cast<std::int64_t>(random()) >> (63 - bits);
}

Case random_case(test::Random& random, bool grouped) {
  Case made{.rows = std::vector<Row>(test::pick(random, 1, kRows)),
            .dim = 16 * test::pick(random, 1, 8),
            .bf16 = random() % 2 == 0,
            .base2 = random() % 2 == 0,
            .grouped = grouped,
            .value_exponent = test::pick(random, 1, 254)};
  for (Row& row : made.rows) {
    row.reference = static_cast<std::int32_t>(random() >> (32 + random() % 32));
    row.bound = static_cast<std::uint32_t>(random());
    const unsigned z_bits = test::pick(random, 1, 57);
    const unsigned acc_bits = test::pick(random, 1, 58);
    for (std::size_t s = 0; s < row.sums.size(); ++s) {
      row.sums[s].z = random_number(random, z_bits);
      if (s == 0) row.sums[s].z = (row.sums[s].z & INT64_MAX) >> random() % 4;
      for (unsigned c = 0; c < made.dim; ++c) {
        row.sums[s].acc.push_back(random() % 16 == 0 ? 0 : random_number(random, acc_bits));
      }
    }
    if (!grouped && random() % 8 == 0) row.sums[0] = {0, std::vector<std::int64_t>(made.dim)};
  }
  return made;
}

TEST(AttendResultTest, ExactSumsAtEveryPace) {
  for (const unsigned pace : kPaces) {
    test::Random random = test::case_random(pace);
    AttendResult unit;
    for (unsigned i = 0; i < 10 && !HasFailure(); ++i) {
      unit.check(random_case(random, false), random, pace);
    }
  }
}

TEST(AttendResultTest, TotalsOfGroupsAtEveryPace) {
  for (const unsigned pace : kPaces) {
    test::Random random = test::case_random(16 + pace);
    AttendResult unit;
    for (unsigned i = 0; i < 10 && !HasFailure(); ++i) {
      unit.check(random_case(random, i % 4 != 3), random, pace);
    }
  }
}

TEST(AttendResultTest, TotalsThatAreNotAboveZero) {
  test::Random random = test::case_random(1);
  AttendResult unit;
  for (unsigned i = 0; i < 20 && !HasFailure(); ++i) {
    Case made = random_case(random, true);
    for (std::size_t r = 0; r < made.rows.size(); r += 2) {
      std::int64_t z = 0;
      for (const model::SampledSum& sum : made.rows[r].sums) z += sum.z;
      made.rows[r].sums[3].z -= z - (static_cast<std::int64_t>(random() % 3) - 1);
    }
    unit.check(made, random, 8);
  }
}

TEST(AttendResultTest, WhatItTakes) {
  test::Random random = test::case_random(2);
  AttendResult unit;
  for (const bool grouped : {false, true}) {
    Case made = random_case(random, grouped);
    while (made.rows.size() != kRows || made.dim != 128) made = random_case(random, grouped);
    const unsigned outputs = kRows * 128;
    const unsigned reads = grouped ? 8 * (outputs + kRows) : outputs;
    const unsigned cycles = unit.check(made, random, 8);
    EXPECT_GT(cycles, reads);
    EXPECT_LT(cycles, reads + (grouped ? 80 : 400));
  }
}

TEST(AttendResultTest, ClearAtAnyTime) {
  test::Random random = test::case_random(3);
  AttendResult unit;
  for (unsigned i = 0; i < 120 && !HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    const Case given_up = random_case(random, i % 4 != 0);
    unit.start(given_up);
    const unsigned cycles = i < 80 ? i : test::pick(random, 0, 2000);
    for (unsigned c = 0; c < cycles; ++c) unit.cycle(random, 8);
    unit->clear_i = 1;
    unit.cycle(random, 8);
    unit->clear_i = 0;
    unsigned waited = 0;
    for (; unit->busy_o && waited < 400; ++waited) unit.cycle(random, 8);
    ASSERT_LT(waited, 400U);
    for (unsigned c = 0; c < kQuotientCycles; ++c) unit.cycle(random, 8);
    unit.check(random_case(random, i % 2 == 0), random, 8);
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

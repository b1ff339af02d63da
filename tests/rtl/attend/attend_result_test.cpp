// nkv_attend_result: what it writes of sums that it reads, against the model's outputs and LSEs.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "Vnkv_attend_result.h"
#include "rounding.hpp"
#include "simulation.hpp"
#include "softmax.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kRows = 8;
constexpr unsigned kReadLatency = 3;
constexpr unsigned kBurstWords = 16;
constexpr std::uint64_t kAddress = 0x12340;
constexpr unsigned kQuotientCycles = 60;  // In which what a clear gave up comes to its end.

struct Row {
  std::int32_t reference = 0;
  std::int64_t z = 0;
  std::vector<std::int64_t> acc;
};

struct Case {
  std::vector<Row> rows;
  unsigned dim = 0;
  bool bf16 = false;
  bool base2 = false;
  unsigned value_exponent = 0;

  static model::RowSoftmax softmax_of(const Row& row) { return {row.reference, row.z, row.acc}; }

  /// Words by address.
  [[nodiscard]] std::map<std::uint64_t, std::uint32_t> expected() const {
    std::vector<std::uint32_t> words;
    for (const Row& row : rows) {
      append_output(softmax_of(row).output(static_cast<int>(value_exponent)), &words);
    }
    words.resize((words.size() + kBurstWords - 1) / kBurstWords * kBurstWords);
    const std::size_t outputs = rows.size() * dim / (bf16 ? 2 : 1);
    std::map<std::uint64_t, std::uint32_t> made;
    for (std::size_t i = 0; i < outputs; ++i) made[kAddress + 4 * i] = words[i];
    const std::uint64_t sums = kAddress + 4 * words.size();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      made[sums + 4 * i] = std::bit_cast<std::uint32_t>(softmax_of(rows[i]).log_sum_exp(base2));
      made[sums + 4 * (kBurstWords + i)] = 0;
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
    (*this)->value_exponent_i = static_cast<std::uint8_t>(asked.value_exponent);
    for (std::size_t i = 0; i < asked.rows.size(); ++i) {
      (*this)->reference_i[i] = static_cast<std::uint32_t>(asked.rows[i].reference);
      (*this)->z_i[i] = static_cast<std::uint64_t>(asked.rows[i].z);
    }
    ASSERT_EQ((*this)->busy_o, 0);
    (*this)->start_i = 1;
    tick();
    (*this)->start_i = 0;
    // The next command's stand there now.
    (*this)->bf16_i = !asked.bf16;
    (*this)->base2_i = !asked.base2;
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
    return static_cast<std::uint64_t>(
        asked_.rows.at((*this)->read_row_o).acc.at((*this)->read_channel_o));
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

Case random_case(test::Random& random) {
  Case made{.rows = std::vector<Row>(test::pick(random, 1, kRows)),
            .dim = 16 * test::pick(random, 1, 8),
            .bf16 = random() % 2 == 0,
            .base2 = random() % 2 == 0,
            .value_exponent = test::pick(random, 1, 254)};
  for (Row& row : made.rows) {
    row.reference = static_cast<std::int32_t>(random() >> (32 + random() % 32));
    const unsigned z_bits = test::pick(random, 1, 57);
    const unsigned acc_bits = test::pick(random, 1, 58);
    row.z = (random_number(random, z_bits) & INT64_MAX) >> random() % 4;
    for (unsigned c = 0; c < made.dim; ++c) {
      row.acc.push_back(random() % 16 == 0 ? 0 : random_number(random, acc_bits));
    }
    // A row without tokens.
    if (random() % 8 == 0) {
      row.z = 0;
      row.acc.assign(made.dim, 0);
    }
  }
  return made;
}

TEST(AttendResultTest, AnySumsAtEveryPace) {
  for (const unsigned pace : kPaces) {
    test::Random random = test::case_random(pace);
    AttendResult unit;
    for (unsigned i = 0; i < 10 && !HasFailure(); ++i) {
      unit.check(random_case(random), random, pace);
    }
  }
}

TEST(AttendResultTest, WhatItTakes) {
  test::Random random = test::case_random(2);
  AttendResult unit;
  Case made = random_case(random);
  while (made.rows.size() != kRows || made.dim != 128) made = random_case(random);
  const unsigned reads = kRows * 128;
  const unsigned cycles = unit.check(made, random, 8);
  EXPECT_GT(cycles, reads);
  EXPECT_LT(cycles, reads + 400);
}

TEST(AttendResultTest, ClearAtAnyTime) {
  test::Random random = test::case_random(3);
  AttendResult unit;
  for (unsigned i = 0; i < 120 && !HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    const Case given_up = random_case(random);
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
    unit.check(random_case(random), random, 8);
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

// nkv_code_query against the model's rows before codes: of every dimension, with gains and tops
// from end to end, rows of one channel and of none.
#include "code_query.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "Vnkv_code_query.h"
#include "scores/code_commands.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kPatience = 60;

class Rows : public Simulation<Vnkv_code_query> {
 public:
  Rows() { reset(); }

  /// All rows of the query, one after the other; gaps between some.
  void check(const model::Query& query, const std::vector<int8_t>& gains, int top,
             test::Random& random) {
    const model::CodeQuery expected(query, gains, top);
    const auto dim = static_cast<unsigned>(gains.size());
    (*this)->dim_i = static_cast<std::uint8_t>(dim);
    (*this)->top_i = static_cast<unsigned>(top) & 0xfffff;
    given_.clear();
    rows_ = 0;
    for (size_t row = 0; row < query.rows(); ++row) {
      for (unsigned first = 0; first < dim; first += kLanes) {
        for (unsigned i = 0; i < kLanes; ++i) {
          const bool is_there = first + i < dim;
          (*this)->query_i[i] = is_there ? query.row(row)[first + i] & 0xffffff : 0;
          (*this)->gain_i[i] =
              is_there ? static_cast<std::uint8_t>(gains[first + i]) : random() & 0xff;
        }
        (*this)->exponent_i = static_cast<std::uint8_t>(query.exponent(row));
        (*this)->index_i = static_cast<std::uint8_t>(first / kLanes);
        (*this)->valid_i = 1;
        cycle(expected);
      }
      (*this)->valid_i = 0;
      while (random() % 2 == 0) cycle(expected);
    }
    for (unsigned i = 0; i < kPatience; ++i) cycle(expected);
    ASSERT_EQ(rows_, query.rows());
  }

 private:
  void cycle(const model::CodeQuery& expected) {
    tick();
    const unsigned words = ((*this)->dim_i + kLanes - 1) / kLanes;
    if ((*this)->valid_o) {
      ASSERT_EQ((*this)->index_o, given_.size() % words);
      std::vector<std::int64_t> word;
      for (unsigned i = 0; i < kLanes; ++i) {
        word.push_back(static_cast<std::int32_t>((*this)->scaled_o[i] << 8) >> 8);
      }
      given_.push_back(word);
    }
    if (!(*this)->row_valid_o) return;
    ASSERT_LT(rows_, expected.rows());
    const auto& row = expected.row(rows_);
    ASSERT_GE(given_.size(), (rows_ + 1) * words) << "a row is told before its words";
    for (size_t c = 0; c < row.values.size(); ++c) {
      ASSERT_EQ(given_[rows_ * words + c / kLanes][c % kLanes], row.values[c])
          << "row " << rows_ << ", channel " << c;
    }
    EXPECT_EQ((*this)->row_is_zero_o, row.is_zero);
    EXPECT_EQ(signed_of((*this)->row_power_o, 17), row.power);
    EXPECT_EQ(signed_of((*this)->row_search_power_o, 17), row.search_power);
    EXPECT_EQ(signed_of((*this)->row_variance_o, 22), row.variance);
    ++rows_;
  }

  std::vector<std::vector<std::int64_t>> given_;  // Words.
  size_t rows_ = 0;
};

TEST(CodeQueryTest, RowsOfEveryDimension) {
  test::Random random = test::case_random(1);
  Rows unit;
  for (unsigned dim = 16; dim <= 128; dim += 16) {
    for (unsigned i = 0; i < 40; ++i) {
      SCOPED_TRACE(std::to_string(dim) + " channels, case " + std::to_string(i));
      const auto gains = any_gains(random, dim, i % 3 == 0 ? 0 : i % 3 == 1 ? 20 : 127);
      const int top = static_cast<int>(test::pick(random, 0, 1200)) - 600;
      const unsigned rows = test::pick(random, 1, 8);
      unit.check(any_query(random, rows, dim), gains, top, random);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CodeQueryTest, TopsFromEndToEnd) {
  test::Random random = test::case_random(2);
  Rows unit;
  for (const int top : {-(1 << 19), -(1 << 15), -1, 0, 1, 32767, 16 * 32767}) {
    SCOPED_TRACE(top);
    for (unsigned i = 0; i < 4; ++i) {
      unit.check(any_query(random, 8, 128), any_gains(random, 128, 127), top, random);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CodeQueryTest, TheLargestGainsAndElements) {
  test::Random random = test::case_random(3);
  Rows unit;
  for (const int gain : {-128, -127, -1, 0, 1, 127}) {
    for (const float element : {0x1.fffffep127f, 0x1p-126f, 1.0f}) {
      SCOPED_TRACE(std::to_string(gain) + ", " + std::to_string(element));
      const std::vector<int8_t> gains(128, static_cast<int8_t>(gain));
      unit.check(query_of(std::vector<float>(8 * 128, element), 8), gains, 0, random);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

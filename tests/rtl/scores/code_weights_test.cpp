// nkv_code_weights against the model's weights: rows of every dimension by every sign set.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "Vnkv_code_weights.h"
#include "code_query.hpp"
#include "code_tables.hpp"
#include "scores/code_commands.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kPatience = 50;

class Weights : public Simulation<Vnkv_code_weights> {
 public:
  Weights() { reset(); }

  /// All rows for a set, one after the other; gaps between some.
  void check(const model::CodeQuery& query, int set, test::Random& random) {
    const auto dim = static_cast<unsigned>(query.row(0).values.size());
    (*this)->dim_i = static_cast<std::uint8_t>(dim);
    (*this)->sign_set_i = static_cast<std::uint8_t>(set);
    words_ = 0;
    for (size_t row = 0; row < query.rows(); ++row) {
      for (unsigned first = 0; first < dim; first += kLanes) {
        for (unsigned i = 0; i < kLanes; ++i) {
          const std::int64_t value = first + i < dim ? query.row(row).values[first + i] : 0;
          (*this)->query_i[i] = static_cast<unsigned>(value) & 0xffffff;
        }
        (*this)->index_i = static_cast<std::uint8_t>(first / kLanes);
        (*this)->valid_i = 1;
        cycle(query, set);
      }
      (*this)->valid_i = 0;
      while (random() % 2 == 0) cycle(query, set);
    }
    for (unsigned i = 0; i < kPatience; ++i) cycle(query, set);
    ASSERT_EQ(words_, query.rows() * ((dim + kLanes - 1) / kLanes));
  }

 private:
  void cycle(const model::CodeQuery& query, int set) {
    tick();
    if (!(*this)->valid_o) return;
    const unsigned words = ((*this)->dim_i + kLanes - 1) / kLanes;
    ASSERT_LT(words_, query.rows() * words);
    const auto& weights = query.row(words_ / words).transformed[static_cast<size_t>(set)];
    const size_t first = words_ % words * kLanes;
    ASSERT_EQ((*this)->index_o, words_ % words);
    ASSERT_EQ((*this)->power_o, weights.power);
    for (size_t i = 0; i < kLanes; ++i) {
      const std::int64_t expected =
          first + i < weights.values.size() ? weights.values[first + i] : 0;
      ASSERT_EQ(static_cast<std::int16_t>((*this)->weight_o[i]), expected)
          << "row " << words_ / words << ", channel " << first + i;
    }
    ++words_;
  }

  size_t words_ = 0;
};

TEST(CodeWeightsTest, RowsOfEveryDimensionBySets) {
  test::Random random = test::case_random(1);
  Weights unit;
  for (unsigned dim = 16; dim <= 128; dim += 16) {
    for (int set = 0; set < NKV_SIGN_SETS; ++set) {
      SCOPED_TRACE(std::to_string(dim) + " channels, set " + std::to_string(set));
      const unsigned rows = test::pick(random, 1, 8);
      const model::CodeQuery query(any_query(random, rows, dim), any_gains(random, dim, 40), 0);
      unit.check(query, set, random);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CodeWeightsTest, TheLongestRows) {
  test::Random random = test::case_random(2);
  Weights unit;
  for (unsigned dim = 16; dim <= 128; dim += 16) {
    for (int set = 0; set < NKV_SIGN_SETS; ++set) {
      SCOPED_TRACE(std::to_string(dim) + " channels, set " + std::to_string(set));
      // One channel of T holds all of the first row; all of the second one's are alike; they are
      // long in the third one.
      std::vector<float> elements(3 * size_t{dim}, 0x1.fffffep0f);
      for (unsigned c = 0; c < dim; ++c) {
        if (model::is_minus(set, c)) elements[c] = -elements[c];
        if (c != 0) elements[dim + c] = 0.0f;
        if (random() % 2 == 0) elements[2 * dim + c] = -elements[2 * dim + c];
      }
      const model::CodeQuery query(query_of(elements, 3), any_gains(random, dim, 0), 0);
      unit.check(query, set, random);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

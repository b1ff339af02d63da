// Rounds of samples through the exact stage, the measure and the result, against the model's
// SampledSums.
#include "sampled_sums.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "Vnkv_sampled_sums_bench.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using model::SampledSums;
using model::Weight;

constexpr unsigned kRows = 8;
constexpr unsigned kLanes = 32;
constexpr unsigned kLogBits = 42;
constexpr unsigned kValueExponent = 130;
constexpr std::int32_t kLargestValue = (1 << 24) - 1;
constexpr std::int64_t kOctave = std::int64_t{1} << 24;
constexpr std::uint32_t kError = 0x3d800000;  // 2^-4
constexpr std::int64_t kLogError = -4 * kOctave;
constexpr unsigned kLongest = 20000;

/// A token: of each row its logit, and that of its midpoint.
struct Token {
  std::array<std::int64_t, kRows> exact;
  std::array<std::int64_t, kRows> approximate;
  int halvings;
  unsigned group;
  model::SampledValues values;
};

using Weights = std::array<Weight, kRows>;

class SampledSumsUnit : public Simulation<Vnkv_sampled_sums_bench> {
 public:
  SampledSumsUnit(unsigned dim, unsigned sixteenths) : dim_(dim), sixteenths_(sixteenths) {
    (*this)->rows_i = kRows;
    (*this)->value_dim_i = static_cast<std::uint8_t>(dim);
    (*this)->sixteenths_i = static_cast<std::uint8_t>(sixteenths);
    (*this)->error_i = kError;
    (*this)->value_exponent_i = kValueExponent;
    (*this)->word_valid_i = 0;
    (*this)->value_raise_valid_i = 0;
    (*this)->value_clear_groups_i = 0;
    (*this)->measure_i = 0;
    (*this)->finish_i = 0;
    reset();
    begin();
  }

  /// Another command: sums of zero.
  void begin() {
    rows_.assign(kRows, SampledSums(dim_));
    pulse(&(*this)->value_clear_i);
  }

  void clear_groups() {
    for (SampledSums& row : rows_) row.clear_groups();
    pulse(&(*this)->value_clear_groups_i);
  }

  /// References to which these logits are not too large.
  void raise(const std::array<std::int64_t, kRows>& logits) {
    for (unsigned r = 0; r < kRows; ++r) {
      const std::int64_t before = rows_[r].reference();
      rows_[r].raise_reference(model::integer_part(logits[r]));
      const std::int64_t distance = rows_[r].reference() - before;
      (*this)->value_raise_i[r] = static_cast<std::uint8_t>(std::min<std::int64_t>(distance, 63));
    }
    pulse(&(*this)->value_raise_valid_i);
  }

  void add(const Token& token) {
    raise(token.exact);
    Weights weights;
    for (unsigned r = 0; r < kRows; ++r) {
      weights[r] = model::weight_of(token.exact[r], rows_[r].reference());
      rows_[r].add(weights[r], token.values.own);
    }
    send(weights, 0, false, token.values.own);
  }

  void add_sampled(const Token& token) {
    std::array<std::int64_t, kRows> largest{};
    for (unsigned r = 0; r < kRows; ++r) {
      largest[r] =
          SampledSums::scaled(std::max(token.exact[r], token.approximate[r]), token.halvings);
    }
    raise(largest);
    for (unsigned r = 0; r < kRows; ++r) {
      rows_[r].add_sampled(token.exact[r], token.approximate[r], token.halvings, token.group,
                           token.values);
    }
    send(weights_of(token.exact), 0, false, token.values.own);
    send(excess_of(token.exact, token.halvings), token.group, false, token.values.own);
    send(excess_of(token.approximate, token.halvings), token.group, true,
         token.values.negative_mean);
    send(weights_of(token.approximate), 0, true, token.values.negative_mean);
  }

  void measure() {
    ASSERT_TRUE(run_until([this] { return (*this)->value_idle_o != 0; }));
    (*this)->measure_i = 1;
    cycle();
    (*this)->measure_i = 0;
    ASSERT_TRUE(run_until([this] { return (*this)->measured_o != 0; }));
    bool all_within = true;
    for (unsigned r = 0; r < kRows; ++r) {
      const model::LogBound bound = rows_[r].bound(sixteenths_, kLogError - kOctave);
      all_within = all_within && bound && *bound <= kLogError;
      ASSERT_EQ((*this)->known_o[r] != 0, bound.has_value());
      if (bound) {
        const auto log = static_cast<std::int64_t>((*this)->log_bound_o[r] << (64 - kLogBits)) >>
                         (64 - kLogBits);
        ASSERT_EQ(log, *bound);
      }
    }
    ASSERT_EQ((*this)->all_within_o != 0, all_within);
  }

  /// Sets the sums aside, whose results are written while others grow.
  void finish() {
    check_results();
    ASSERT_TRUE(run_until([this] { return (*this)->value_idle_o != 0; }));
    for (unsigned r = 0; r < kRows; ++r) {
      (*this)->reference_i[r] = static_cast<std::uint32_t>(rows_[r].reference());
    }
    written_.clear();
    (*this)->finish_i = 1;
    cycle();
    (*this)->finish_i = 0;
    finished_ = rows_;
  }

  void check_results() {
    ASSERT_TRUE(run_until([this] { return (*this)->busy_o == 0; }));
    for (unsigned r = 0; r < finished_.size(); ++r) {
      const model::RowSoftmax total = finished_[r].total();
      const std::vector<float> output = total.output(kValueExponent);
      for (unsigned c = 0; c < dim_; ++c) {
        ASSERT_EQ(written_[4 * (r * dim_ + c)], std::bit_cast<std::uint32_t>(output[c]));
      }
      const std::uint64_t sums = std::uint64_t{4} * kRows * dim_;
      ASSERT_EQ(written_[sums + 4 * r], std::bit_cast<std::uint32_t>(total.log_sum_exp(false)));
      const model::LogBound bound = finished_[r].bound(sixteenths_, kLogError - kOctave);
      ASSERT_EQ(written_[sums + 64 + 4 * r], std::bit_cast<std::uint32_t>(model::number_of(bound)));
    }
  }

 private:
  void cycle() {
    settle();
    if ((*this)->write_valid_o) {
      for (unsigned i = 0; i < 16; ++i) {
        written_[(*this)->write_address_o + 4 * i] = (*this)->write_data_o[i];
      }
    }
    tick();
  }

  [[nodiscard]] bool run_until(const std::function<bool()>& done) {
    for (unsigned i = 0; i < kLongest; ++i) {
      settle();
      if (done()) return true;
      cycle();
    }
    return false;
  }

  void pulse(CData* port) {
    ASSERT_TRUE(run_until([this] { return (*this)->value_ready_o != 0; }));
    *port = 1;
    cycle();
    *port = 0;
  }

  [[nodiscard]] Weights weights_of(const std::array<std::int64_t, kRows>& logits) const {
    Weights weights;
    for (unsigned r = 0; r < kRows; ++r) {
      weights[r] = model::weight_of(logits[r], rows_[r].reference());
    }
    return weights;
  }

  /// w - (w >> j) of the L'.
  [[nodiscard]] Weights excess_of(const std::array<std::int64_t, kRows>& logits,
                                  int halvings) const {
    std::array<std::int64_t, kRows> scaled{};
    for (unsigned r = 0; r < kRows; ++r) scaled[r] = SampledSums::scaled(logits[r], halvings);
    Weights weights = weights_of(scaled);
    for (Weight& weight : weights) weight.mantissa -= weight.mantissa >> halvings;
    return weights;
  }

  void send(const Weights& weights, unsigned sum, bool subtract,
            const std::vector<std::int32_t>& value) {
    for (unsigned word = 0; word * kLanes < dim_; ++word) {
      ASSERT_TRUE(run_until([this] { return (*this)->value_ready_o != 0; }));
      (*this)->word_valid_i = 1;
      (*this)->word_index_i = static_cast<std::uint8_t>(word);
      (*this)->value_word_sum_i = static_cast<std::uint8_t>(sum);
      (*this)->value_word_subtract_i = subtract;
      for (unsigned i = 0; i < kLanes; ++i) {
        const unsigned channel = word * kLanes + i;
        (*this)->word_i[i] =
            channel < dim_ ? static_cast<std::uint32_t>(value[channel]) & 0x7ffffff : 0;
      }
      for (unsigned r = 0; r < kRows; ++r) {
        const bool is_zero = weights[r].is_zero();
        (*this)->value_weight_i[r] = is_zero ? 0 : static_cast<std::uint32_t>(weights[r].mantissa);
        (*this)->value_shift_i[r] = is_zero ? 0 : static_cast<std::uint8_t>(weights[r].shift);
        (*this)->value_units_i[r] = static_cast<std::uint64_t>(weights[r].units());
      }
      cycle();
      (*this)->word_valid_i = 0;
    }
  }

  unsigned dim_;
  unsigned sixteenths_;
  std::vector<SampledSums> rows_;
  std::vector<SampledSums> finished_;
  std::map<std::uint64_t, std::uint32_t> written_;
};

std::int32_t random_value(test::Random& random) {
  const auto magnitude = static_cast<std::int32_t>(random() % kLargestValue >> random() % 12);
  return random() % 2 == 0 ? magnitude : -magnitude;
}

/// Logits within some octaves, which rise slowly.
Token random_token(test::Random& random, unsigned dim, unsigned age) {
  Token token{.exact = {}, .approximate = {}, .halvings = 0, .group = 0, .values = {}};
  for (unsigned r = 0; r < kRows; ++r) {
    const auto base = static_cast<std::int64_t>(age) * 4096 - (std::int64_t{1} << (10 + 2 * r));
    token.exact[r] = base + static_cast<std::int64_t>(random() % (12 << 16));
    token.approximate[r] = token.exact[r] + static_cast<std::int64_t>(random() % 65536) - 32768;
  }
  token.halvings = static_cast<int>(random() % 17 >> random() % 3);
  token.group = 1 + static_cast<unsigned>(random() % 7);
  for (unsigned c = 0; c < dim; ++c) {
    token.values.own.push_back(random_value(random));
    token.values.negative_mean.push_back(random_value(random) / 2);
  }
  return token;
}

TEST(SampledSumsTest, RoundsAreMeasuredWhileTheResultsBeforeAreWritten) {
  for (const unsigned dim : {16U, 64U, 128U}) {
    test::Random random = test::case_random(dim);
    SampledSumsUnit unit(dim, 8 + dim / 8);
    for (unsigned command = 0; command < 3 && !HasFatalFailure(); ++command) {
      unit.begin();
      unsigned age = 0;
      for (unsigned i = 0; i < 30; ++i) unit.add(random_token(random, dim, ++age));
      const unsigned rounds = 1 + command;
      for (unsigned round = 0; round < rounds && !HasFatalFailure(); ++round) {
        unit.clear_groups();
        for (unsigned i = 0; i < 40; ++i) unit.add_sampled(random_token(random, dim, ++age));
        unit.measure();
      }
      unit.finish();
    }
    unit.check_results();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

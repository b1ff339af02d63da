// nkv_code_transform against the model's transform: rows of every dimension by every sign set.
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "Vnkv_code_transform.h"
#include "nkv_abi.h"
#include "simulation.hpp"
#include "transform.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kLatency = 13;
constexpr int kLength = 1 << 14;  // Of rows: their magnitudes' sum.

class Transform : public Simulation<Vnkv_code_transform> {
 public:
  Transform() { reset(); }

  void shape(unsigned dim, int set) {
    (*this)->dim_i = static_cast<std::uint8_t>(dim);
    (*this)->sign_set_i = static_cast<std::uint8_t>(set);
    dim_ = dim;
  }

  void send(const std::vector<std::int64_t>& row, int set) {
    const std::vector<std::int64_t> expected = model::transform(row, set);
    for (unsigned first = 0; first < dim_; first += kLanes) {
      for (unsigned i = 0; i < kLanes; ++i) {
        (*this)->value_i[i] = first + i < dim_ ? static_cast<std::uint16_t>(row[first + i]) : 0;
      }
      (*this)->valid_i = 1;
      (*this)->index_i = static_cast<std::uint8_t>(first / kLanes);
      due_.push_back({cycles() + kLatency, first, expected});
      cycle();
    }
    (*this)->valid_i = 0;
  }

  void cycle() {
    tick();
    const bool is_due = !due_.empty() && due_.front().cycle == cycles();
    ASSERT_EQ((*this)->valid_o, is_due);
    if (!is_due) return;
    const Due& due = due_.front();
    ASSERT_EQ((*this)->index_o, due.first / kLanes);
    for (unsigned i = 0; i < kLanes && due.first + i < dim_; ++i) {
      ASSERT_EQ(static_cast<std::int16_t>((*this)->value_o[i]), due.expected[due.first + i])
          << "channel " << due.first + i;
    }
    due_.pop_front();
  }

  void drain() {
    (*this)->valid_i = 0;
    for (unsigned i = 0; i < kLatency + 2; ++i) cycle();
  }

 private:
  struct Due {
    std::uint64_t cycle;
    unsigned first;
    std::vector<std::int64_t> expected;
  };
  unsigned dim_ = 0;
  std::deque<Due> due_;
};

/// Magnitudes that add up to nearly kLength; spread over few channels or many.
std::vector<std::int64_t> any_row(test::Random& random, unsigned dim) {
  std::vector<std::int64_t> row(dim);
  const unsigned parts = 1u << test::pick(random, 0, 7);
  for (unsigned i = 0; i < parts; ++i) {
    row[test::pick(random, 0, dim - 1)] += kLength / static_cast<int>(parts);
  }
  for (auto& value : row) value = random() % 2 == 0 ? -value : value;
  return row;
}

TEST(CodeTransformTest, RowsOfEveryDimensionBySets) {
  test::Random random = test::case_random(1);
  Transform unit;
  for (unsigned dim = 16; dim <= 128; dim += 16) {
    for (int set = 0; set < NKV_SIGN_SETS; ++set) {
      SCOPED_TRACE(std::to_string(dim) + " channels, set " + std::to_string(set));
      unit.shape(dim, set);
      for (unsigned i = 0; i < 24; ++i) {
        unit.send(any_row(random, dim), set);
        while (random() % 3 == 0) unit.cycle();
        if (HasFatalFailure()) return;
      }
      unit.drain();
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CodeTransformTest, OneChannelAtATime) {
  Transform unit;
  for (unsigned dim = 16; dim <= 128; dim += 16) {
    unit.shape(dim, 3);
    for (unsigned channel = 0; channel < dim; ++channel) {
      std::vector<std::int64_t> row(dim);
      row[channel] = kLength;
      unit.send(row, 3);
      if (HasFatalFailure()) return;
    }
    unit.drain();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

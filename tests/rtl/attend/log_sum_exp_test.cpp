// nkv_log_sum_exp against the model's log-sum-exp of a row.
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "Vnkv_log_sum_exp.h"
#include "attend/softmax_at.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLongest = 175;

class LogSumExp : public Simulation<Vnkv_log_sum_exp> {
 public:
  LogSumExp() { reset(); }

  void start(std::int64_t reference, std::int64_t z, bool base2) {
    (*this)->reference_i = static_cast<std::uint32_t>(reference);
    (*this)->z_i = static_cast<std::uint64_t>(z);
    (*this)->base2_i = base2;
    (*this)->start_i = 1;
    tick();
    (*this)->start_i = 0;
  }

  void check(std::int64_t reference, std::int64_t z) {
    SCOPED_TRACE(testing::Message() << "M " << reference << " z " << z);
    for (const bool base2 : {false, true}) {
      start(reference, z, base2);
      ASSERT_TRUE(tick_until([this] { return (*this)->done_o != 0; }, kLongest));
      const float expected = softmax_at(reference, z, 0).log_sum_exp(base2);
      ASSERT_EQ((*this)->result_o, std::bit_cast<std::uint32_t>(expected));
      tick();
      ASSERT_FALSE((*this)->done_o);
    }
  }
};

TEST(LogSumExpTest, AnySum) {
  test::Random random = test::case_random(0);
  LogSumExp unit;
  for (unsigned i = 0; i < 4000 && !HasFatalFailure(); ++i) {
    const auto reference = static_cast<std::int32_t>(random()) >> random() % 31;
    if (reference < model::kNoReference) continue;
    unit.check(reference, static_cast<std::int64_t>(random() >> 1 >> random() % 63));
  }
}

TEST(LogSumExpTest, EveryTableEntry) {
  test::Random random = test::case_random(1);
  LogSumExp unit;
  for (std::int64_t index = 0; index < 128 && !HasFatalFailure(); ++index) {
    const std::int64_t start = (128 + index) << 40;
    unit.check(3, start);
    unit.check(-3, start + (std::int64_t{1} << 40) - 1);
    unit.check(0, start + static_cast<std::int64_t>(random() >> 24));
  }
}

// Around the logarithm 0, and where the whole part is as large as it gets.
TEST(LogSumExpTest, SmallAndLargeLogarithms) {
  LogSumExp unit;
  for (const std::int64_t z : {std::int64_t{1}, (std::int64_t{1} << 41) - 1, std::int64_t{1} << 41,
                               (std::int64_t{1} << 41) + 1, (std::int64_t{1} << 41) + (1 << 18),
                               std::numeric_limits<std::int64_t>::max()}) {
    for (const std::int64_t reference :
         {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1}, std::int64_t{41},
          std::int64_t{std::numeric_limits<std::int32_t>::max()}, model::kNoReference}) {
      unit.check(reference, z);
    }
  }
}

TEST(LogSumExpTest, OfNothingIsMinusInfinity) {
  LogSumExp unit;
  unit.check(model::kNoReference, 0);
  unit.check(17, 0);
}

TEST(LogSumExpTest, ResetInFlight) {
  LogSumExp unit;
  for (unsigned cycles = 0; cycles < 100; cycles += 7) {
    unit.start(5, 12345, false);
    unit.ticks(cycles);
    unit.reset();
    unit.check(-7, 54321);
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

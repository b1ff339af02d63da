// nkv_result against the model's output of a row.
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "Vnkv_result.h"
#include "attend/softmax_at.hpp"
#include "pipe.hpp"
#include "rounding.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLatency = 43;
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

struct ExpectedOutput {
  std::uint8_t tag;
  std::uint32_t pattern;
  std::int64_t acc;
  std::int64_t z;
};

class Result : public Pipe<Vnkv_result, ExpectedOutput> {
 public:
  Result() : Pipe(kLatency) {}

  // Only while nothing is on its way.
  void set(int value_exponent, bool bf16) {
    (*this)->value_exponent_i = static_cast<std::uint8_t>(value_exponent);
    (*this)->bf16_i = bf16;
  }

  void send(std::int64_t acc, std::int64_t z) {
    (*this)->tag_i = static_cast<std::uint8_t>(acc ^ z);
    (*this)->acc_i = static_cast<std::uint64_t>(acc);
    (*this)->z_i = static_cast<std::uint64_t>(z);
    const float output = softmax_at(0, z, acc).output((*this)->value_exponent_i)[0];
    const std::uint32_t pattern =
        (*this)->bf16_i ? model::round_to_bf16(output) : std::bit_cast<std::uint32_t>(output);
    send_expecting({(*this)->tag_i, pattern, acc, z});
  }

 private:
  void check(const ExpectedOutput& expected) override {
    ASSERT_EQ((*this)->tag_o, expected.tag);
    ASSERT_EQ((*this)->output_o, expected.pattern) << "acc " << expected.acc << " z " << expected.z;
  }
};

std::int64_t random_magnitude(test::Random& random) {
  switch (random() % 32) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return kLargest;
    case 3:
      return std::int64_t{1} << random() % 63;
    default:
      return static_cast<std::int64_t>(random() >> 1 >> random() % 63);
  }
}

std::int64_t random_acc(test::Random& random) {
  const std::int64_t magnitude = random_magnitude(random);
  return random() % 2 == 0 ? magnitude : -magnitude;
}

void run(Result& result, test::Random& random, unsigned count, unsigned pace) {
  for (unsigned i = 0; i < count && !testing::Test::HasFatalFailure(); ++i) {
    if (is_willing(random, pace)) {
      result.send(random_acc(random), random_magnitude(random));
    } else {
      result.cycle();
    }
  }
  result.drain();
}

TEST(ResultTest, AnySumsAtEveryPace) {
  for (const unsigned pace : kPaces) {
    for (const bool bf16 : {false, true}) {
      test::Random random = test::case_random(pace);
      Result result;
      result.set(127, bf16);
      run(result, random, 20000, pace);
    }
  }
}

TEST(ResultTest, EveryValueExponent) {
  test::Random random = test::case_random(1);
  Result result;
  for (int exponent = 0; exponent < 255; ++exponent) {
    for (const bool bf16 : {false, true}) {
      result.set(exponent, bf16);
      run(result, random, 200, 8);
      if (HasFatalFailure()) return;
    }
  }
}

// Quotients that lie half-way between two results, or next to that.
TEST(ResultTest, Ties) {
  test::Random random = test::case_random(2);
  Result result;
  for (const bool bf16 : {false, true}) {
    result.set(130, bf16);
    for (unsigned i = 0; i < 5000 && !HasFatalFailure(); ++i) {
      const unsigned kept = bf16 ? 8 : 24;
      const auto significand = static_cast<std::int64_t>(
          std::uint64_t{1} << (kept - 1) | (random() & ((std::uint64_t{1} << (kept - 1)) - 1)));
      const std::int64_t half = (significand << 1 | 1) << 10;
      const std::int64_t acc = half + static_cast<std::int64_t>(random() % 3) - 1;
      result.send(random() % 2 == 0 ? acc : -acc, std::int64_t{1} << random() % 63);
    }
    result.drain();
  }
}

// 511 * 2^n lies half-way between two bf16 numbers; the upper one of the last pair is no number.
TEST(ResultTest, RoundsToTheLargestNumberAndNoFurther) {
  Result result;
  for (int exponent = 200; exponent < 255; ++exponent) {
    for (const bool bf16 : {false, true}) {
      result.set(exponent, bf16);
      for (unsigned shift = 0; shift < 54 && !HasFatalFailure(); ++shift) {
        result.send(std::int64_t{511} << shift, 1);
        result.send(-std::int64_t{511} << shift, std::int64_t{1} << 20);
        result.send((std::int64_t{511} << shift) - 1, 1);
      }
      result.drain();
    }
  }
}

TEST(ResultTest, TheMostNegativeSum) {
  Result result;
  result.set(127, false);
  result.send(std::numeric_limits<std::int64_t>::min(), 1);
  result.send(std::numeric_limits<std::int64_t>::min(), kLargest);
  result.drain();
}

TEST(ResultTest, ResetDropsWhatIsInFlight) {
  test::Random random = test::case_random(3);
  Result result;
  result.set(127, false);
  for (unsigned i = 0; i < 30; ++i) result.send(random_acc(random), 5);
  result.forget();
  result.reset();
  result.drain();
  run(result, random, 100, 8);
}

}  // namespace
}  // namespace nearkv::rtl_test

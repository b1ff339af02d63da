// nkv_weight against the model's weight_of.
#include <gtest/gtest.h>

#include <algorithm>

#include "Vnkv_weight.h"
#include "logit.hpp"
#include "pipe.hpp"
#include "softmax.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLatency = 5;
constexpr std::int64_t kLogitLimit = (std::int64_t{1} << 47) - 1;

struct ExpectedWeight {
  std::uint8_t tag;
  model::Weight weight;
  std::int64_t logit;
};

class Weights : public Pipe<Vnkv_weight, ExpectedWeight> {
 public:
  Weights() : Pipe(kLatency) {}

  void send(std::int64_t logit, std::int64_t reference) {
    (*this)->tag_i = static_cast<std::uint8_t>(logit ^ reference);
    (*this)->logit_i = static_cast<std::uint64_t>(logit) & ((std::uint64_t{1} << 48) - 1);
    (*this)->reference_i = static_cast<std::uint32_t>(reference);
    send_expecting({(*this)->tag_i, model::weight_of(logit, reference), logit});
  }

 private:
  void check(const ExpectedWeight& expected) override {
    SCOPED_TRACE(testing::Message() << "L " << expected.logit << " n " << expected.weight.shift);
    const bool is_zero = expected.weight.is_zero();
    ASSERT_EQ((*this)->tag_o, expected.tag);
    ASSERT_EQ((*this)->weight_o, is_zero ? 0 : expected.weight.mantissa);
    ASSERT_EQ((*this)->shift_o, is_zero ? 0 : expected.weight.shift);
    ASSERT_EQ((*this)->units_o, static_cast<std::uint64_t>(expected.weight.units()));
  }
};

TEST(WeightTest, EveryFraction) {
  Weights weights;
  for (std::int64_t fraction = 0; fraction < 65536 && !HasFatalFailure(); ++fraction) {
    weights.send((std::int64_t{-5} << 16) + fraction, -5 + fraction % 50);
  }
  weights.drain();
}

TEST(WeightTest, EveryDistanceAndTheFurthest) {
  Weights weights;
  for (std::int64_t distance = 0; distance < 200; ++distance) {
    weights.send(12345, distance);
    weights.send(-12345, distance - 1);
  }
  weights.send(kLogitLimit, model::integer_part(kLogitLimit));
  weights.send(-kLogitLimit, model::integer_part(-kLogitLimit));
  weights.send(-kLogitLimit, model::integer_part(kLogitLimit));
  weights.send(-kLogitLimit, -1);
  weights.drain();
}

TEST(WeightTest, AnyLogitAtEveryPace) {
  for (const unsigned pace : kPaces) {
    test::Random random = test::case_random(pace);
    Weights weights;
    for (unsigned i = 0; i < 3000 && !HasFatalFailure(); ++i) {
      if (!is_willing(random, pace)) {
        weights.cycle();
        continue;
      }
      const auto logit = static_cast<std::int64_t>(random()) >> 17 >> random() % 47;
      const std::int64_t largest = model::integer_part(kLogitLimit);
      const auto distance = static_cast<std::int64_t>(random() % 64);
      weights.send(logit, std::min(model::integer_part(logit) + distance, largest));
    }
    weights.drain();
  }
}

TEST(WeightTest, ResetDropsWhatIsInFlight) {
  Weights weights;
  for (unsigned i = 0; i < 3; ++i) weights.send(i, 1);
  weights.forget();
  weights.reset();
  weights.drain();
  weights.send(77, 1);
  weights.drain();
}

}  // namespace
}  // namespace nearkv::rtl_test

// nkv_weight against the model's weight_of, and what BOUNDED makes of it.
#include <gtest/gtest.h>

#include <algorithm>

#include "Vnkv_weight.h"
#include "logit.hpp"
#include "pipe.hpp"
#include "sampled_sums.hpp"
#include "softmax.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLatency = 5;
constexpr std::int64_t kLogitLimit = (std::int64_t{1} << 47) - 1;

// Of the 2^j - 1 tokens that one stands for besides itself.
model::Weight weight_of_others(std::int64_t logit, std::int64_t reference, int halvings) {
  model::Weight weight = model::weight_of(model::SampledSums::scaled(logit, halvings), reference);
  weight.mantissa -= weight.mantissa >> halvings;
  return weight;
}

struct ExpectedWeight {
  std::uint8_t tag;
  model::Weight weight;
  std::int64_t logit;
};

class Weights : public Pipe<Vnkv_weight, ExpectedWeight> {
 public:
  explicit Weights(bool is_bounded = false) : Pipe(kLatency + (is_bounded ? 1 : 0)) {
    (*this)->bounded_i = is_bounded;
  }

  void send(std::int64_t logit, std::int64_t reference) {
    send(logit, reference, model::weight_of(logit, reference));
  }

  /// The weight of the others of a token.
  void send_others(std::int64_t logit, std::int64_t reference, int halvings) {
    (*this)->others_i = 1;
    (*this)->halvings_i = static_cast<std::uint8_t>(halvings);
    send(logit, reference, weight_of_others(logit, reference, halvings));
    (*this)->others_i = 0;
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

  void send(std::int64_t logit, std::int64_t reference, const model::Weight& weight) {
    (*this)->tag_i = static_cast<std::uint8_t>(logit ^ reference);
    (*this)->logit_i = static_cast<std::uint64_t>(logit) & ((std::uint64_t{1} << 48) - 1);
    (*this)->reference_i = static_cast<std::uint32_t>(reference);
    send_expecting({(*this)->tag_i, weight, logit});
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

TEST(WeightTest, OfOthers) {
  const std::int64_t largest = model::integer_part(kLogitLimit);
  for (const unsigned pace : kPaces) {
    test::Random random = test::case_random(pace);
    Weights weights(true);
    for (unsigned i = 0; i < 6000 && !HasFatalFailure(); ++i) {
      if (!is_willing(random, pace)) {
        weights.cycle();
        continue;
      }
      // Now and then near the largest, where L + j stops.
      const std::int64_t logit = random() % 8 == 0
                                     ? kLogitLimit - static_cast<std::int64_t>(random() >> 44)
                                     : static_cast<std::int64_t>(random()) >> 17 >> random() % 47;
      const auto distance = static_cast<std::int64_t>(random() % 64);
      const auto halvings = static_cast<int>(random() % 17);
      const std::int64_t scaled = model::SampledSums::scaled(logit, halvings);
      const std::int64_t reference = std::min(model::integer_part(scaled) + distance, largest);
      if (random() % 2 == 0) {
        weights.send_others(logit, reference, halvings);
      } else {
        weights.send(logit, reference);
      }
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

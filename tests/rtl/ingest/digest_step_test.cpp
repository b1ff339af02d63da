// nkv_digest_step against the model's search, which tries every step from far below on: all pairs
// of ends of 8 significant bits, which shows that no other step than the two that the module
// considers can be the smallest; many of 11.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "Vnkv_digest_step.h"
#include "digest.hpp"
#include "nkv_abi.h"
#include "number.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLatency = 11;
constexpr unsigned kChannels = 128;
constexpr int kTop = 130;

struct Ends {
  model::Number low;
  model::Number high;
};

std::uint32_t port_of(const model::Number& number) {
  const auto fraction = static_cast<std::uint32_t>(number.significand >> 13 & 0x3ff);
  return std::uint32_t{number.negative} << 18 | static_cast<std::uint32_t>(number.exponent) << 10 |
         fraction;
}

double value_of(const model::Number& number) {
  const double magnitude =
      static_cast<double>(number.significand) * std::ldexp(1.0, number.exponent - kTop);
  return number.negative ? -magnitude : magnitude;
}

// Channels whose larger exponent is kTop: the module's answers to them must be the model's.
class Seeker : public Simulation<Vnkv_digest_step> {
 public:
  Seeker() { reset(); }

  void check(const model::Number& one, const model::Number& other) {
    const bool ascends = value_of(one) <= value_of(other);
    ends_.push_back(ascends ? Ends{one, other} : Ends{other, one});
    if (ends_.size() == kChannels) flush();
  }

  void flush() {
    if (ends_.empty()) return;
    const auto dim = static_cast<unsigned>(ends_.size());
    std::vector<model::Number> keys;
    for (unsigned token = 0; token < NKV_PAGE_TOKENS; ++token) {
      for (const Ends& ends : ends_) keys.push_back(token % 2 == 0 ? ends.low : ends.high);
    }
    const model::CodedKeys coded = model::encode_digest(keys, dim);
    for (unsigned cycle = 0; cycle < dim + kLatency; ++cycle) {
      (*this)->valid_i = cycle < dim;
      if (cycle < dim) {
        (*this)->low_i = port_of(ends_[cycle].low);
        (*this)->high_i = port_of(ends_[cycle].high);
      }
      tick();
      const bool is_due = cycle + 1 >= kLatency && cycle + 1 < dim + kLatency;
      ASSERT_EQ((*this)->valid_o, is_due);
      if (!is_due) continue;
      const unsigned channel = cycle + 1 - kLatency;
      const model::ChannelCells expected =
          model::decode_digest(coded.digest[channel], coded.step_exponent);
      const unsigned cells = (*this)->cells_o;
      ASSERT_EQ(cells >> 13, 1u);
      ASSERT_EQ(static_cast<int>(cells >> 10 & 7) + 8, expected.m) << channel;
      ASSERT_EQ(static_cast<int>(cells & 0x3ff) - 140, expected.exponent) << channel;
      ASSERT_EQ((*this)->largest_o, kTop);
    }
    ends_.clear();
  }

 private:
  std::vector<Ends> ends_;
};

TEST(DigestStepTest, AllPairsOfEightBits) {
  Seeker seeker;
  for (int below = 0; below <= 16 && !HasFatalFailure(); ++below) {
    for (std::int64_t far = 128; far < 256; ++far) {
      for (std::int64_t near = 128; near < 256; ++near) {
        for (const bool far_negative : {false, true}) {
          for (const bool near_negative : {false, true}) {
            seeker.check(
                {.negative = far_negative, .exponent = kTop, .significand = far << 16},
                {.negative = near_negative, .exponent = kTop - below, .significand = near << 16});
          }
        }
      }
    }
  }
  seeker.flush();
}

TEST(DigestStepTest, ManyPairsOfElevenBits) {
  test::Random random = test::case_random(0);
  Seeker seeker;
  const auto significand = [&] { return static_cast<std::int64_t>(1024 | random() % 1024) << 13; };
  for (unsigned i = 0; i < 300000 && !HasFatalFailure(); ++i) {
    const int below = static_cast<int>(random() % 24);
    seeker.check(
        {.negative = random() % 2 != 0, .exponent = kTop, .significand = significand()},
        {.negative = random() % 2 != 0, .exponent = kTop - below, .significand = significand()});
  }
  seeker.flush();
}

TEST(DigestStepTest, ZeroAtOneEnd) {
  Seeker seeker;
  for (std::int64_t significand = 1024; significand < 2048; ++significand) {
    for (const bool negative : {false, true}) {
      seeker.check({.negative = negative, .exponent = kTop, .significand = significand << 13}, {});
    }
  }
  seeker.flush();
}

}  // namespace
}  // namespace nearkv::rtl_test

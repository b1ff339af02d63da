// nkv_logit and nkv_logit_setup against the model's LogitScale, and the tables against the model's.
#include "logit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "Vnkv_logit_bench.h"
#include "pipe.hpp"
#include "tables.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLatency = 37;
constexpr unsigned kLongestSetup = 58;
constexpr std::int64_t kLargestScore = (std::int64_t{1} << 59) - 1;

struct Command {
  float scale;
  float soft_cap;
  int key_exponent;
};

struct ExpectedLogit {
  std::uint8_t tag;
  std::int64_t logit;
  std::int64_t score;
};

class Logit : public Pipe<Vnkv_logit_bench, ExpectedLogit> {
 public:
  Logit() : Pipe(kLatency) {}

  void set(const Command& command) {
    scale_ = model::LogitScale(command.scale, command.soft_cap, command.key_exponent);
    (*this)->scale_i = std::bit_cast<std::uint32_t>(command.scale);
    (*this)->soft_cap_i = std::bit_cast<std::uint32_t>(command.soft_cap);
    (*this)->key_exponent_i = static_cast<std::uint8_t>(command.key_exponent);
    (*this)->start_i = 1;
    tick();
    (*this)->start_i = 0;
    ASSERT_TRUE(tick_until([this] { return (*this)->done_o != 0; }, kLongestSetup));
    tick();
  }

  void send(std::int64_t score, int query_exponent) {
    (*this)->tag_i = static_cast<std::uint8_t>(score ^ query_exponent);
    (*this)->score_i = static_cast<std::uint64_t>(score) & ((std::uint64_t{1} << 60) - 1);
    (*this)->query_exponent_i = static_cast<std::uint8_t>(query_exponent);
    send_expecting({(*this)->tag_i, scale_.logit(score, query_exponent), score});
  }

 private:
  void check(const ExpectedLogit& expected) override {
    const auto logit = static_cast<std::int64_t>((*this)->logit_o << 16) >> 16;
    ASSERT_EQ((*this)->tag_o, expected.tag);
    ASSERT_EQ(logit, expected.logit) << "score " << expected.score;
  }

  model::LogitScale scale_{1.0f, 0.0f, 0};
};

std::int64_t random_score(test::Random& random) {
  switch (random() % 16) {
    case 0:
      return 0;
    case 1:
      return kLargestScore;
    case 2:
      return -kLargestScore;
    case 3:
      return -1;
    default: {
      const auto magnitude = static_cast<std::int64_t>(random() >> 5 >> random() % 59);
      return random() % 2 == 0 ? magnitude : -magnitude;
    }
  }
}

// A finite binary32 number other than zero, of any size.
float any_float(test::Random& random) {
  for (;;) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnormal(value)) return value;
  }
}

void run_command(Logit& logit, test::Random& random, const Command& command, unsigned pace) {
  SCOPED_TRACE(testing::Message() << "scale " << command.scale << " cap " << command.soft_cap
                                  << " Ek " << command.key_exponent);
  logit.set(command);
  // Around the Eq that leaves a score of 2^47 units where logits are interesting, and any other.
  const int usual = 301 - 47 - command.key_exponent;
  for (unsigned i = 0; i < 300 && !testing::Test::HasFatalFailure(); ++i) {
    const int near_usual = std::clamp(usual + static_cast<int>(random() % 40) - 20, 0, 254);
    const int exponent = random() % 4 == 0 ? static_cast<int>(random() % 255) : near_usual;
    if (is_willing(random, pace)) {
      logit.send(random_score(random), exponent);
    } else {
      logit.cycle();
    }
  }
  logit.drain();
}

TEST(LogitTest, UsualScales) {
  test::Random random = test::case_random(0);
  Logit logit;
  for (const float scale : {0.08838834764f, 0.125f, -0.125f, 1.0f, 0.0625f, 1.44269504f}) {
    for (int exponent = 100; exponent < 150; exponent += 7) {
      run_command(logit, random, {scale, 0.0f, exponent}, 8);
      run_command(logit, random, {scale, 0.0f, exponent}, 5);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(LogitTest, AnyScale) {
  test::Random random = test::case_random(1);
  Logit logit;
  for (unsigned i = 0; i < 400; ++i) {
    run_command(logit, random, {any_float(random), 0.0f, static_cast<int>(random() % 255)}, 8);
    if (HasFatalFailure()) return;
  }
}

// With this significand C is 2^23, so that logits are scores shifted: also those that lie at the
// limits of 48 bits.
TEST(LogitTest, PowersOfTwoUpToTheLimits) {
  constexpr float kPowerOfTwo = 11629081.0f;
  Logit logit;
  for (const float scale : {kPowerOfTwo, -kPowerOfTwo}) {
    logit.set({std::ldexp(scale, -24), 0.0f, 130});
    for (int bit = 24; bit < 59; ++bit) {
      for (int exponent = 80; exponent < 200; ++exponent) {
        const std::int64_t score = std::int64_t{1} << bit;
        logit.send(score, exponent);
        logit.send(-score, exponent);
        if (HasFatalFailure()) return;
      }
    }
    logit.drain();
  }
}

TEST(LogitTest, UsualSoftCaps) {
  test::Random random = test::case_random(2);
  Logit logit;
  for (const float cap : {50.0f, 30.0f, 1.0f, 0.001f, 100000.0f}) {
    for (unsigned i = 0; i < 20; ++i) {
      run_command(logit, random, {0.0884f, cap, static_cast<int>(100 + random() % 50)}, 8);
      run_command(logit, random, {-3.0f, cap, static_cast<int>(100 + random() % 50)}, 5);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(LogitTest, AnySoftCap) {
  test::Random random = test::case_random(3);
  Logit logit;
  for (unsigned i = 0; i < 400; ++i) {
    run_command(logit, random,
                {any_float(random), std::abs(any_float(random)), static_cast<int>(random() % 255)},
                8);
    if (HasFatalFailure()) return;
  }
}

TEST(LogitTest, SoftCapsAtTheirLimits) {
  constexpr float kSubnormal = std::numeric_limits<float>::denorm_min();
  test::Random random = test::case_random(4);
  Logit logit;
  for (const float cap :
       {kSubnormal, std::numeric_limits<float>::min(), std::numeric_limits<float>::max(), 1e-5f,
        1.05e-5f, 1.06e-5f, 11629079.0f, 11629080.0f, 11629081.0f}) {
    run_command(logit, random, {1.0f, cap, 130}, 8);
    if (HasFatalFailure()) return;
  }
}

TEST(LogitTest, ResetDropsWhatIsInFlight) {
  test::Random random = test::case_random(5);
  Logit logit;
  logit.set({1.0f, 30.0f, 127});
  for (unsigned i = 0; i < 10; ++i) logit.send(random_score(random), 120);
  logit.forget();
  logit.reset();
  logit.drain();
  run_command(logit, random, {1.0f, 30.0f, 127}, 8);
}

template <size_t N, typename Base, typename Slope>
void expect_table(const std::array<std::int64_t, N>& table, std::int64_t offset, Base base,
                  Slope slope) {
  for (size_t i = 0; i + 1 < N; ++i) {
    ASSERT_EQ(base(i) + offset, table[i]) << "entry " << i;
    ASSERT_EQ(slope(i), table[i + 1] - table[i]) << "entry " << i;
  }
}

TEST(TablesTest, AreTheModels) {
  Logit bench;
  const auto at = [&bench](size_t entry) {
    bench->entry_i = static_cast<std::uint16_t>(entry);
    bench.settle();
  };
  expect_table(
      model::exp2_table(), 1 << 17, [&](size_t i) { return at(i), bench->exp2_base_o; },
      [&](size_t i) { return at(i), bench->exp2_slope_o; });
  expect_table(
      model::log2_table(), 0, [&](size_t i) { return at(i), bench->log2_base_o; },
      [&](size_t i) { return at(i), bench->log2_slope_o; });
  expect_table(
      model::tanh_table(), 0, [&](size_t i) { return at(i), bench->tanh_base_o; },
      [&](size_t i) { return at(i), bench->tanh_slope_o; });
}

}  // namespace
}  // namespace nearkv::rtl_test

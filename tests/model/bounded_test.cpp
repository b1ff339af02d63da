// ATTEND, mode BOUNDED: its bound holds at the stated rate, its sample is reproducible, its budget
// is kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "attention.hpp"
#include "support/environment.hpp"
#include "topics.hpp"

namespace nearkv::test {
namespace {

AttendOptions bounded(float error, uint32_t seed = 1) {
  AttendOptions options;
  options.mode = NKV_ATTEND_MODE_BOUNDED;
  options.error = error;
  options.seed = seed;
  return options;
}

uint64_t bursts(const nkv_completion& completion) {
  return uint64_t{completion.stream_bursts} + completion.refine_bursts + completion.exact_bursts +
         completion.value_bursts;
}

// One context in the device with its queries to come.
struct World {
  World(const TopicOptions& topic_options, uint64_t seed, PageForm form = {})
      : random(seed), topics(topic_options, random), data(topics.context(random)) {
    sequence = append(device, data.keys, data.values, form);
  }

  AttendResult run(const Rows& query, const AttendOptions& options) {
    return attend(device, sequence, query, data.values.dim, options);
  }

  std::vector<ReferenceRow> reference(const Rows& query) const {
    return reference_attention(data.keys, data.values, query, data.values.dim, {});
  }

  Device device;
  Random random;
  Topics topics;
  TopicData data;
  Sequence sequence;
};

// How often the truth lies beyond the bound, over many independent queries.
struct Coverage {
  uint32_t rows = 0;
  uint32_t missed_bounds = 0;
  uint32_t commands = 0;
  uint32_t missed_goals = 0;  // Commands with a row whose true error exceeds what was asked.
  uint32_t dense = 0;
  double bytes = 0;  // Sum of parts of a dense read.
  double worst = 0;  // Largest true error over its bound.

  void add(const AttendResult& result, const std::vector<ReferenceRow>& reference, double error,
           double dense_bursts) {
    bool within_goal = true;
    const bool is_dense = (result.completion.flags & NKV_COMPLETION_FLAG_DENSE_FALLBACK) != 0;
    for (size_t row = 0; row < reference.size(); ++row) {
      const double truth = relative_distance(result.output[row], reference[row].output);
      within_goal = within_goal && truth <= error;
      if (is_dense) continue;
      ++rows;
      // The bound is relative to the |O| that was returned.
      const double ratio = truth / result.bound[row];
      worst = std::max(worst, ratio);
      if (ratio > 1.0) ++missed_bounds;
    }
    ++commands;
    missed_goals += within_goal ? 0 : 1;
    dense += is_dense ? 1 : 0;
    bytes += static_cast<double>(bursts(result.completion)) / dense_bursts;
  }

  void print(const char* name) const {
    std::printf("| %s | %u | %.2f %% | %.2f %% | %.2f | %.0f %% | %.2f |\n", name, commands,
                100.0 * missed_bounds / std::max(rows, 1u), 100.0 * missed_goals / commands, worst,
                100.0 * dense / commands, bytes / commands);
  }
};

Coverage cover(const TopicOptions& topic_options, float error, uint32_t contexts,
               uint32_t queries) {
  Coverage coverage;
  for (uint32_t context = 0; context < contexts; ++context) {
    World world(topic_options, 1000 + context);
    for (uint32_t i = 0; i < queries; ++i) {
      const Rows query = world.topics.query(2, world.random);
      const auto dense = world.run(query, {});
      const auto result = world.run(query, bounded(error, context * queries + i));
      EXPECT_EQ(result.completion.status, NKV_STATUS_OK);
      coverage.add(result, world.reference(query), static_cast<double>(error),
                   static_cast<double>(bursts(dense.completion)));
    }
  }
  return coverage;
}

TEST(Bounded, TheBoundHoldsAtItsRate) {
  std::printf(
      "| data, error asked | commands | rows beyond bound | commands beyond error | worst "
      "error / bound | dense | bytes of dense |\n|---|---|---|---|---|---|---|\n");
  const auto contexts = static_cast<uint32_t>(by_size(3, 7));
  uint32_t commands = 0;
  struct Data {
    const char* name;
    double correlation;
    double repetition;
  };
  for (const Data& data : {Data{"independent residuals", 0.0, 0.0},
                           Data{"value residuals that follow the keys'", 1.0, 0.0},
                           Data{"the same, 70 % of the tokens repeated", 1.0, 0.7}}) {
    for (const float error : {0.2f, 0.1f, 0.05f}) {
      const TopicOptions options{.tokens = 4096,
                                 .sharpness = 1.5,
                                 .correlation = data.correlation,
                                 .repetition = data.repetition};
      const Coverage coverage = cover(options, error, contexts, 16);
      std::array<char, 80> name{};
      std::snprintf(name.data(), name.size(), "%s, %.0f %%", data.name,
                    100.0 * static_cast<double>(error));
      coverage.print(name.data());
      EXPECT_LE(coverage.missed_bounds, 0.03 * coverage.rows);
      EXPECT_LE(coverage.missed_goals, 0.03 * coverage.commands);
      commands += coverage.commands;
    }
  }
  EXPECT_GE(commands, by_size(400, 1000));
}

TEST(Bounded, TheSameSeedGivesTheSameBits) {
  World world({.tokens = 4096, .sharpness = 1.5}, 1);
  const Rows query = world.topics.query(4, world.random);
  const auto first = world.run(query, bounded(0.1f, 7));
  const auto again = world.run(query, bounded(0.1f, 7));
  const auto other = world.run(query, bounded(0.1f, 8));
  ASSERT_EQ(first.completion.flags, 0);
  EXPECT_EQ(first.output, again.output);
  EXPECT_EQ(first.log_sum_exp, again.log_sum_exp);
  EXPECT_EQ(first.bound, again.bound);
  EXPECT_EQ(bursts(first.completion), bursts(again.completion));
  EXPECT_NE(first.output, other.output);
  EXPECT_NE(bursts(first.completion), bursts(other.completion)) << "the sample is another one";
}

TEST(Bounded, ReportsWhatItReached) {
  World world({.tokens = 4096, .sharpness = 1.5}, 2);
  const Rows query = world.topics.query(4, world.random);
  for (const float error : {0.3f, 0.1f, 0.05f}) {
    const auto result = world.run(query, bounded(error));
    if ((result.completion.flags & NKV_COMPLETION_FLAG_DENSE_FALLBACK) != 0) continue;
    EXPECT_GE(result.completion.rounds, 1);
    EXPECT_LE(result.completion.rounds, 4);
    const double largest = *std::max_element(result.bound.begin(), result.bound.end());
    EXPECT_EQ(static_cast<double>(result.completion.bound), largest);
    EXPECT_LE(largest, static_cast<double>(error));
    EXPECT_GE(largest, 0.49 * static_cast<double>(error)) << "a small sample cannot vouch for less";
    const auto reference = world.reference(query);
    for (size_t row = 0; row < 4; ++row) {
      EXPECT_NEAR(result.log_sum_exp[row], reference[row].log_sum_exp,
                  2.0 * static_cast<double>(error));
    }
  }
}

TEST(Bounded, LessErrorTakesMoreBytes) {
  World world({.tokens = 8192, .sharpness = 1.5}, 3);
  const Rows query = world.topics.query(2, world.random);
  uint64_t last = 0;
  for (const float error : {0.5f, 0.1f, 0.03f}) {
    const auto result = world.run(query, bounded(error));
    EXPECT_GT(bursts(result.completion), last);
    last = bursts(result.completion);
  }
}

TEST(Bounded, FallsBackToDenseWhenThatIsCheaper) {
  World world({.tokens = 1024}, 4);
  const Rows query = world.topics.query(4, world.random);
  const auto result = world.run(query, bounded(1e-6f));
  EXPECT_EQ(result.completion.flags, NKV_COMPLETION_FLAG_DENSE_FALLBACK);
  EXPECT_EQ(result.completion.bound, 0.0f);
  const auto dense = world.run(query, {});
  EXPECT_EQ(result.output, dense.output);
  EXPECT_EQ(result.log_sum_exp, dense.log_sum_exp);
  EXPECT_GT(bursts(result.completion), bursts(dense.completion));
}

TEST(Bounded, KeepsItsByteCap) {
  World world({.tokens = 8192, .sharpness = 1.5}, 5);
  const Rows query = world.topics.query(4, world.random);
  const uint64_t dense = bursts(world.run(query, {}).completion);
  const auto reference = world.reference(query);
  bool was_capped = false;
  bool was_free = false;
  for (uint32_t cap = 50; cap <= 250; cap += 25) {
    AttendOptions options = bounded(0.02f);
    options.byte_cap = static_cast<uint8_t>(cap);
    const auto result = world.run(query, options);
    ASSERT_EQ(result.completion.status, NKV_STATUS_OK);
    EXPECT_LE(bursts(result.completion) * 256, dense * cap);
    EXPECT_EQ(result.completion.flags & NKV_COMPLETION_FLAG_DENSE_FALLBACK, 0);
    const bool is_capped = (result.completion.flags & NKV_COMPLETION_FLAG_CAPPED) != 0;
    (is_capped ? was_capped : was_free) = true;
    for (size_t row = 0; row < 4; ++row) {
      const double truth = relative_distance(result.output[row], reference[row].output);
      EXPECT_LE(truth, 1.5 * result.bound[row]);
    }
    if (result.completion.rounds == 0) {
      EXPECT_TRUE(std::isinf(result.bound[0]));
    }
  }
  EXPECT_TRUE(was_capped);
  EXPECT_TRUE(was_free);
}

TEST(Bounded, MoreStandardDeviationsMakeLargerBounds) {
  World world({.tokens = 4096, .sharpness = 1.5}, 6);
  const Rows query = world.topics.query(2, world.random);
  AttendOptions options = bounded(0.3f);
  const auto usual = world.run(query, options);
  options.z = 32;  // 2, as 0 means.
  EXPECT_EQ(world.run(query, options).output, usual.output);
  options.z = 64;
  EXPECT_GE(bursts(world.run(query, options).completion), bursts(usual.completion));
}

TEST(Bounded, SurvivesDataThatItsModelDoesNotFit) {
  Device device;
  Random random(7);
  for (int i = 0; i < 100; ++i) {
    const uint64_t mark = device.mark();
    const double key_size = std::exp2(uniform(random, -30, 30));
    const double value_size = std::exp2(uniform(random, -60, 60));
    const bool is_constant = pick(random, 0, 4) == 0;
    const Rows keys = make_rows(NKV_DTYPE_BF16, 1024, 32, [&](uint32_t t, uint32_t) {
      const double outlier = t % 301 == 7 ? 64.0 : 1.0;
      return outlier * key_size * normal(random);
    });
    const Rows values = make_rows(NKV_DTYPE_BF16, 1024, 32, [&](uint32_t, uint32_t) {
      return value_size * (is_constant ? 1.0 : normal(random));
    });
    const Rows query = normal_rows(NKV_DTYPE_BF16, 2, 32, 1.0, random);
    const Sequence sequence = append(device, keys, values, kRawForm);
    AttendOptions options = bounded(static_cast<float>(uniform(random, 0.01, 1.0)));
    options.tokens = pick(random, 1, 1024);
    options.scale = static_cast<float>(std::exp2(uniform(random, -30, 30)));
    options.byte_cap = static_cast<uint8_t>(pick(random, 0, 1) * pick(random, 1, 255));
    const auto result = attend(device, sequence, query, 32, options);
    ASSERT_EQ(result.completion.status, NKV_STATUS_OK);
    for (size_t row = 0; row < 2; ++row) {
      ASSERT_TRUE(std::isfinite(result.log_sum_exp[row]));
      ASSERT_FALSE(std::isnan(result.bound[row]));
      for (const double element : result.output[row]) ASSERT_TRUE(std::isfinite(element));
    }
    device.release(mark);
  }
}

}  // namespace
}  // namespace nearkv::test

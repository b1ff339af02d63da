// ATTEND, mode TAIL: what it computes, how far it is from dense, what it reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "attention.hpp"
#include "row_io.hpp"
#include "topics.hpp"

namespace nearkv::test {
namespace {

constexpr AttendOptions kTail{.mode = NKV_ATTEND_MODE_TAIL};

AttendOptions tail(uint16_t top_k) {
  AttendOptions options = kTail;
  options.top_k = top_k;
  return options;
}

double worst_distance(const AttendResult& result, const std::vector<ReferenceRow>& reference) {
  double worst = 0;
  for (size_t row = 0; row < reference.size(); ++row) {
    worst = std::max(worst, relative_distance(result.output[row], reference[row].output));
  }
  return worst;
}

TEST(Tail, EqualsDenseWhenAllTokensAreExact) {
  Device device;
  Random random(1);
  for (const uint8_t v_form : {NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_RAW, NKV_ROW_FORM_NONE}) {
    const Topics topics({.tokens = 1024}, random);
    const TopicData data = topics.context(random);
    const Rows query = topics.query(4, random);
    const Sequence sequence = append(device, data.keys, data.values, {.v_form = v_form});
    const Rows& values = v_form == NKV_ROW_FORM_NONE ? data.keys : data.values;
    const auto result = attend(device, sequence, query, 64, tail(1024));
    ASSERT_EQ(result.completion.status, NKV_STATUS_OK);
    const auto reference = reference_attention(data.keys, values, query, 64, kTail);
    EXPECT_LE(output_error(result, reference), 1e-4);
    EXPECT_LE(log_sum_exp_error(result, reference), 1.0);
  }
}

// With nothing exact: every token at the midpoint that READ gives for two planes, with its page's
// mean value. The tolerance is for READ's rounding to bf16, for midpoints stored in 16 bits, and
// for soft caps on lines between some of these.
TEST(Tail, IsAttentionOverMidpointsAndPageMeans) {
  Device device;
  Random random(2);
  const Topics topics({.tokens = 2048, .sharpness = 1.5}, random);
  const TopicData data = topics.context(random);
  const Rows query = topics.query(4, random);
  const Sequence sequence = append(device, data.keys, data.values);
  const auto midpoints = read_midpoints(device, sequence, 64, 2);
  const double scale = 0.125;
  for (const float soft_cap : {0.0F, 15.0F, 30.0F, 50.0F}) {
    SCOPED_TRACE(soft_cap);
    AttendOptions options = tail(0);
    options.soft_cap = soft_cap;
    const auto cap = static_cast<double>(soft_cap);
    const auto result = attend(device, sequence, query, 64, options);
    ASSERT_EQ(result.completion.exact_bursts, 0u) << "no midpoint may be saturated here";
    for (size_t row = 0; row < 4; ++row) {
      std::vector<double> expected(64, 0.0);
      double sum = 0;
      for (uint32_t page = 0; page < sequence.pages(); ++page) {
        double weight = 0;
        std::vector<double> mean(64, 0.0);
        for (uint32_t t = page * NKV_PAGE_TOKENS; t < (page + 1) * NKV_PAGE_TOKENS; ++t) {
          double logit = 0;
          for (size_t c = 0; c < 64; ++c) {
            logit += scale * query.at(row, c) * midpoints[t * 64 + c];
            mean[c] += data.values.at(t, c) / NKV_PAGE_TOKENS;
          }
          weight += std::exp(cap > 0 ? cap * std::tanh(logit / cap) : logit);
        }
        sum += weight;
        for (size_t c = 0; c < 64; ++c) expected[c] += weight * mean[c];
      }
      for (double& element : expected) element /= sum;
      EXPECT_LE(relative_distance(result.output[row], expected), 0.03);
      EXPECT_NEAR(result.log_sum_exp[row], std::log(sum), 0.03);
    }
  }
}

TEST(Tail, PartlyVisiblePagesAreExact) {
  Device device;
  Random random(3);
  const Topics topics({.tokens = 128}, random);
  const TopicData data = topics.context(random);
  const Rows query = topics.query(4, random);
  const Sequence sequence = append(device, data.keys, data.values);
  // Two pages, each with a hidden token: nothing is left to approximate.
  for (AttendOptions options :
       {AttendOptions{.tokens = 127, .window = 126}, AttendOptions{.tokens = 50},
        AttendOptions{.tokens = 100, .window = 60, .sinks = 3}}) {
    options.mode = NKV_ATTEND_MODE_TAIL;
    const auto result = attend(device, sequence, query, 64, options);
    const auto reference = reference_attention(data.keys, data.values, query, 64, options);
    EXPECT_LE(output_error(result, reference), 1e-4);
    EXPECT_LE(log_sum_exp_error(result, reference), 1.0);
  }
}

TEST(Tail, ErrorFallsWithTopK) {
  constexpr std::array<uint16_t, 5> kTopK{0, 16, 64, 256, 1024};
  Device device;
  std::array<double, kTopK.size()> worst{};
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const uint64_t mark = device.mark();
    Random random(seed);
    const Topics topics({}, random);
    const TopicData data = topics.context(random);
    const Rows query = topics.query(4, random);
    const Sequence sequence = append(device, data.keys, data.values);
    const auto reference = reference_attention(data.keys, data.values, query, 64, kTail);
    for (size_t i = 0; i < kTopK.size(); ++i) {
      const auto result = attend(device, sequence, query, 64, tail(kTopK[i]));
      worst[i] = std::max(worst[i], worst_distance(result, reference));
    }
    device.release(mark);
  }
  std::printf("| k | worst |O - O'| / |O'| of 48 rows, 4096 tokens in topics |\n|---|---|\n");
  for (size_t i = 0; i < kTopK.size(); ++i) {
    std::printf("| %u | %.3f |\n", unsigned{kTopK[i]}, worst[i]);
    if (i > 0) {
      EXPECT_LT(worst[i], worst[i - 1]);
    }
  }
  EXPECT_LT(worst.back(), 0.02);
}

// Section 9, by hand: head_dim 128 in DELTA4, 8 pages.
TEST(Tail, CountsItsBytes) {
  Device device;
  Random random(4);
  const Rows keys = normal_rows(NKV_DTYPE_BF16, 512, 128, 1.0, random);
  const Rows query = normal_rows(NKV_DTYPE_BF16, 4, 128, 1.0, random);
  const Sequence sequence = append(device, keys, keys);
  const auto scan = attend(device, sequence, query, 128, tail(0)).completion;
  // Per page: 1 header burst, 4 of digest, 16 of each plane, 8 of value sums.
  EXPECT_EQ(scan.stream_bursts, 8u * (1 + 4 + 32 + 8));
  EXPECT_EQ(scan.exact_bursts, 0u);
  EXPECT_EQ(scan.value_bursts, 0u);
  const auto all = attend(device, sequence, query, 128, tail(512)).completion;
  EXPECT_EQ(all.stream_bursts, 8u * (1 + 4 + 32));  // No token is left for a page's mean.
  EXPECT_EQ(all.exact_bursts, 8u * (2 + 192));
  EXPECT_EQ(all.value_bursts, 8u * (2 + 192));
  // One partly visible page: the rows of 10 tokens, 1920 bytes, and its exponents.
  AttendOptions some = tail(0);
  some.tokens = 458;
  const auto partial = attend(device, sequence, query, 128, some).completion;
  EXPECT_EQ(partial.exact_bursts, 2u + 30);
  EXPECT_EQ(partial.value_bursts, 2u + 30);
}

// O is a mean of values: whatever the input, it stays among them.
TEST(Tail, StaysAmongTheValues) {
  Device device;
  Random random(5);
  for (int i = 0; i < 200; ++i) {
    const uint64_t mark = device.mark();
    const double key_size = std::exp2(uniform(random, -20, 20));
    double page_size = 1.0;
    const Rows keys = make_rows(NKV_DTYPE_BF16, 512, 32, [&](uint32_t t, uint32_t c) {
      if (c == 0 && t % NKV_PAGE_TOKENS == 0) page_size = std::exp2(uniform(random, -8, 8));
      return key_size * page_size * normal(random);
    });
    const Rows values = make_rows(NKV_DTYPE_BF16, 512, 32,
                                  [&](uint32_t, uint32_t) { return uniform(random, 1.0, 2.0); });
    const Rows query = normal_rows(NKV_DTYPE_BF16, 3, 32, 1.0, random);
    const Sequence sequence = append(device, keys, values, kRawForm);
    AttendOptions options = tail(static_cast<uint16_t>(pick(random, 0, 64)));
    options.tokens = pick(random, 1, 512);
    options.scale = static_cast<float>(std::exp2(uniform(random, -20, 20)));
    const auto result = attend(device, sequence, query, 32, options);
    ASSERT_EQ(result.completion.status, NKV_STATUS_OK);
    for (size_t row = 0; row < 3; ++row) {
      ASSERT_TRUE(std::isfinite(result.log_sum_exp[row]));
      for (const double element : result.output[row]) {
        ASSERT_GE(element, 1.0 - 1e-3);
        ASSERT_LE(element, 2.0 + 1e-3);
      }
    }
    device.release(mark);
  }
}

}  // namespace
}  // namespace nearkv::test

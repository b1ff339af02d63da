// What ATTEND means: visibility, soft cap, LSE, partial results, special elements.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "attention.hpp"

namespace nearkv::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kOutputTolerance = 1e-4;  // Without rounding to bf16, on benign input.
constexpr uint32_t kDim = 64;

class AttendSemantics : public testing::Test {
 protected:
  void load(uint32_t tokens, uint64_t seed = 1, double key_deviation = 1.0) {
    Random random(seed);
    keys_ = normal_rows(NKV_DTYPE_BF16, tokens, kDim, key_deviation, random);
    values_ = normal_rows(NKV_DTYPE_BF16, tokens, kDim, 1.0, random);
    query_ = normal_rows(NKV_DTYPE_BF16, 4, kDim, 1.0, random);
    store();
  }

  void store(PageForm form = {}) { sequence_ = append(device_, keys_, values_, form); }

  AttendResult run(const AttendOptions& options) {
    return attend(device_, sequence_, query_, kDim, options);
  }

  void expect_reference(const AttendOptions& options, double tolerance = kOutputTolerance) {
    const auto result = run(options);
    ASSERT_EQ(result.completion.status, NKV_STATUS_OK);
    const auto reference = reference_attention(keys_, values_, query_, kDim, options);
    EXPECT_LE(output_error(result, reference), tolerance);
    EXPECT_LE(log_sum_exp_error(result, reference), 1.0);
  }

  void expect_nothing_seen(const AttendOptions& options) {
    const auto result = run(options);
    ASSERT_EQ(result.completion.status, NKV_STATUS_OK);
    for (size_t row = 0; row < 4; ++row) {
      EXPECT_EQ(result.output[row], std::vector<double>(kDim, 0.0));
      EXPECT_EQ(result.log_sum_exp[row], -kInfinity);
      EXPECT_EQ(result.bound[row], 0.0);
    }
  }

  Device device_;
  Rows keys_;
  Rows values_;
  Rows query_;
  Sequence sequence_;
};

TEST_F(AttendSemantics, CausalLimitInsideAPage) {
  load(512);
  for (const uint32_t tokens : {1u, 63u, 64u, 65u, 100u, 447u, 511u, 512u}) {
    expect_reference({.tokens = tokens});
  }
}

TEST_F(AttendSemantics, SlidingWindow) {
  load(512);
  for (const uint32_t window : {1u, 64u, 65u, 200u, 499u, 500u, 501u, 0xffffffffu}) {
    expect_reference({.tokens = 500, .window = window});
  }
}

TEST_F(AttendSemantics, SinksStayVisibleOutsideTheWindow) {
  load(512);
  for (const uint8_t sinks : std::array<uint8_t, 4>{1, 4, 64, 255}) {
    expect_reference({.tokens = 500, .window = 100, .sinks = sinks});
    expect_reference({.tokens = 100, .window = 1, .sinks = sinks});
  }
}

TEST_F(AttendSemantics, PagesWithoutAVisibleTokenAreNotRead) {
  load(512);
  const auto all = run({.tokens = 512});
  const auto some = run({.tokens = 512, .window = 100, .sinks = 4});
  EXPECT_EQ(some.completion.stream_bursts * 8, all.completion.stream_bursts * 3);
}

TEST_F(AttendSemantics, SoftCap) {
  load(512, 1, 8.0);
  // The cap is known to 16 bits, so that an error of its 2^−15th part is a logit's.
  for (const float cap : {1e-30f, 0.001f, 1.0f, 15.0f, 30.0f, 50.0f}) {
    const double tolerance = kOutputTolerance + 0x1p-15 * static_cast<double>(cap);
    expect_reference({.soft_cap = cap}, tolerance);
    expect_reference({.scale = -0.5f, .soft_cap = cap}, tolerance);
  }
}

TEST_F(AttendSemantics, ScaleOfAnySizeAndSign) {
  load(256);
  for (const float scale : {1.0f, -1.0f, 0.3f, 1e-3f, 1e-20f, 1.2e-38f, 100.0f, -37.5f}) {
    expect_reference({.scale = scale});
  }
}

TEST_F(AttendSemantics, ScalesBeyondReasonSaturate) {
  load(256);
  for (const float scale : {1e20f, -1e20f, 3e38f}) {
    const auto result = run({.scale = scale});
    ASSERT_EQ(result.completion.status, NKV_STATUS_OK);
    for (const double lse : result.log_sum_exp) EXPECT_TRUE(std::isfinite(lse));
    for (const double element : result.output[0]) EXPECT_LE(std::abs(element), 8.0);
  }
}

TEST_F(AttendSemantics, BaseTwoLogSumExp) {
  load(512);
  const auto natural = run({});
  const auto base2 = run({.flags = NKV_ATTEND_FLAG_LSE_BASE2});
  for (size_t row = 0; row < 4; ++row) {
    EXPECT_NEAR(base2.log_sum_exp[row] * std::log(2.0), natural.log_sum_exp[row], 2e-6);
    EXPECT_EQ(base2.output[row], natural.output[row]);
  }
}

TEST_F(AttendSemantics, Bf16OutputIsTheFp32OneRounded) {
  load(512);
  const auto wide = run({});
  const auto narrow = run({.flags = NKV_ATTEND_FLAG_OUTPUT_BF16});
  for (size_t row = 0; row < 4; ++row) {
    for (size_t c = 0; c < kDim; ++c) {
      const double rounded = decode(NKV_DTYPE_BF16, encode(NKV_DTYPE_BF16, wide.output[row][c]));
      EXPECT_EQ(narrow.output[row][c], rounded);
    }
  }
}

// Partial results over any split merge to the same tolerance: O = Σ e^(LSE_i − LSE) O_i.
TEST_F(AttendSemantics, PartialResultsMerge) {
  load(1024);
  const auto whole = reference_attention(keys_, values_, query_, kDim, {});
  Random random(5);
  for (int round = 0; round < 20; ++round) {
    std::vector<uint32_t> cuts{0, sequence_.pages()};
    for (uint32_t i = pick(random, 1, 6); i > 0; --i) {
      cuts.push_back(pick(random, 0, sequence_.pages()));
    }
    std::sort(cuts.begin(), cuts.end());
    AttendResult merged = run({});
    for (size_t row = 0; row < 4; ++row) merged.output[row].assign(kDim, 0.0);
    std::vector<double> sums(4, 0.0);
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      if (cuts[i] == cuts[i + 1]) continue;
      const Sequence part{.page_list = sequence_.page_list + cuts[i] * sizeof(nkv_page_entry),
                          .tokens = (cuts[i + 1] - cuts[i]) * NKV_PAGE_TOKENS};
      const auto partial = attend(device_, part, query_, kDim);
      for (size_t row = 0; row < 4; ++row) {
        const double weight = std::exp(partial.log_sum_exp[row] - whole[row].log_sum_exp);
        sums[row] += weight;
        for (size_t c = 0; c < kDim; ++c) {
          merged.output[row][c] += weight * partial.output[row][c];
        }
      }
    }
    for (size_t row = 0; row < 4; ++row) {
      merged.log_sum_exp[row] = whole[row].log_sum_exp + std::log(sums[row]);
      for (double& element : merged.output[row]) element /= sums[row];
    }
    EXPECT_LE(output_error(merged, whole), kOutputTolerance);
    EXPECT_LE(log_sum_exp_error(merged, whole), 1.0);
  }
}

TEST_F(AttendSemantics, ZeroLengthGivesZeroAndMinusInfinity) {
  load(64);
  for (const uint8_t mode :
       {NKV_ATTEND_MODE_DENSE, NKV_ATTEND_MODE_TAIL, NKV_ATTEND_MODE_BOUNDED}) {
    auto command = attend_command(device_, sequence_, query_, kDim, {.mode = mode});
    command.tokens = 0;
    command.page_list = ~uint64_t{7};  // Nothing is read from it.
    const auto result = read_result(device_, command, device_.run(command));
    ASSERT_EQ(result.completion.status, NKV_STATUS_OK);
    EXPECT_EQ(result.completion.stream_bursts, 0u);
    for (size_t row = 0; row < 4; ++row) {
      EXPECT_EQ(result.output[row], std::vector<double>(kDim, 0.0));
      EXPECT_EQ(result.log_sum_exp[row], -kInfinity);
    }
  }
}

TEST_F(AttendSemantics, AListWhoseKeysAreAllNonfiniteIsFullyHidden) {
  load(128);
  for (uint32_t token = 0; token < 128; ++token) keys_.patterns[token * kDim] = 0x7fc0;
  store(kRawForm);
  for (const uint8_t mode :
       {NKV_ATTEND_MODE_DENSE, NKV_ATTEND_MODE_TAIL, NKV_ATTEND_MODE_BOUNDED}) {
    expect_nothing_seen({.mode = mode});
    EXPECT_NE(run({.mode = mode}).completion.flags & NKV_COMPLETION_FLAG_NONFINITE, 0);
  }
}

TEST_F(AttendSemantics, AllZeroKeysGiveTheMeanOfTheValues) {
  load(256);
  keys_.patterns.assign(keys_.patterns.size(), 0);
  store();
  expect_reference({});
  expect_reference({.mode = NKV_ATTEND_MODE_TAIL});
  EXPECT_NEAR(run({}).log_sum_exp[0], std::log(256.0), 1e-5);
}

TEST_F(AttendSemantics, AllZeroQueriesGiveTheMeanOfTheValues) {
  load(256);
  query_.patterns.assign(query_.patterns.size(), 0);
  expect_reference({});
  expect_reference({.mode = NKV_ATTEND_MODE_TAIL});
}

TEST_F(AttendSemantics, AllZeroValuesGiveZero) {
  load(256);
  values_.patterns.assign(values_.patterns.size(), 0x8000);
  store();
  for (const uint8_t mode :
       {NKV_ATTEND_MODE_DENSE, NKV_ATTEND_MODE_TAIL, NKV_ATTEND_MODE_BOUNDED}) {
    const auto result = run({.mode = mode});
    EXPECT_EQ(result.output[2], std::vector<double>(kDim, 0.0));
    EXPECT_TRUE(std::isfinite(result.log_sum_exp[2]));
    EXPECT_EQ(result.bound[2], 0.0);
  }
}

TEST_F(AttendSemantics, ATokenWithANonfiniteKeyTakesNoPart) {
  for (const PageForm form : {PageForm{}, kRawForm}) {
    load(256);
    keys_.patterns[10 * kDim + 5] = 0x7fc0;
    keys_.patterns[77 * kDim] = 0xff80;
    keys_.patterns[200 * kDim + 63] = 0x7f80;
    store(form);
    expect_reference({});
    EXPECT_EQ(run({}).completion.flags, NKV_COMPLETION_FLAG_NONFINITE);
    expect_reference({.mode = NKV_ATTEND_MODE_TAIL, .top_k = 256});
    // Out of sight it does not count.
    EXPECT_EQ(run({.tokens = 10}).completion.flags, 0);
    EXPECT_EQ(run({.window = 50}).completion.flags, 0);
  }
}

TEST_F(AttendSemantics, ANonfiniteValueCountsAsZero) {
  for (const PageForm form : {PageForm{}, kRawForm}) {
    load(256);
    values_.patterns[10 * kDim + 5] = 0x7fc0;
    values_.patterns[77 * kDim] = 0xff80;
    store(form);
    expect_reference({});
    EXPECT_EQ(run({}).completion.flags, 0);  // Which only keys set: DELTA4 values hide it.
  }
}

TEST_F(AttendSemantics, ANonfiniteQueryIsNamedByItsRow) {
  load(64);
  for (const uint32_t pattern : {0x7f80u, 0xff80u, 0x7fc0u, 0xff81u}) {
    const Rows finite = query_;
    query_.patterns[3 * kDim + 1] = pattern;
    query_.patterns[2 * kDim + 9] = pattern;
    for (const uint8_t mode :
         {NKV_ATTEND_MODE_DENSE, NKV_ATTEND_MODE_TAIL, NKV_ATTEND_MODE_BOUNDED}) {
      const auto result = run({.mode = mode});
      EXPECT_EQ(result.completion.status, NKV_STATUS_BAD_QUERY);
      EXPECT_EQ(result.completion.detail, 2u);
    }
    query_ = finite;
  }
}

TEST_F(AttendSemantics, QueriesInAllTheirTypes) {
  load(256);
  Random random(9);
  for (const uint8_t dtype : {NKV_DTYPE_FP16, NKV_DTYPE_FP32}) {
    query_ = normal_rows(dtype, 4, kDim, 1.0, random);
    expect_reference({});
  }
}

TEST_F(AttendSemantics, KeysAndValuesAtTheEndsOfTheirRange) {
  load(256);
  Random random(10);
  for (const double size : {0x1p-100, 0x1p100}) {
    keys_ = normal_rows(NKV_DTYPE_BF16, 256, kDim, size, random);
    values_ = normal_rows(NKV_DTYPE_BF16, 256, kDim, size, random);
    store(kRawForm);
    expect_reference({.scale = static_cast<float>(0.125 / size)});
  }
}

}  // namespace
}  // namespace nearkv::test

// Codes (section 11), looked at from inside the model: what their estimates are worth, against
// arithmetic in binary64 of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "code_tables.hpp"
#include "row_codes.hpp"
#include "transform.hpp"

namespace nearkv::test {
namespace {

using model::CodeForm;
using model::RowCodes;

constexpr size_t kTokens = NKV_PAGE_TOKENS;

// Rows [PAGE_TOKENS][channels] in bf16, with the numbers that the model makes of them.
class Rows {
 public:
  explicit Rows(size_t channels) : channels_(channels), values_(kTokens * channels) {}

  [[nodiscard]] size_t channels() const { return channels_; }
  float& at(size_t token, size_t channel) { return values_[token * channels_ + channel]; }

  [[nodiscard]] RowCodes encode(const CodeForm& form, int set,
                                std::span<const int8_t> gains = {}) const {
    std::vector<model::Number> numbers;
    for (const float value : values_) numbers.push_back(model::decode_binary32(bf16_bits(value)));
    return model::encode_rows(numbers, gains, set, form);
  }

  // What is coded, in binary64: bf16, times its gain.
  [[nodiscard]] double coded(size_t token, size_t channel,
                             std::span<const int8_t> gains = {}) const {
    const float value = std::bit_cast<float>(bf16_bits(values_[token * channels_ + channel]));
    if (!std::isfinite(value)) return 0;
    return static_cast<double>(value) * (gains.empty() ? 1 : std::exp2(gains[channel] / 16.0));
  }

 private:
  static uint32_t bf16_bits(float value) { return std::bit_cast<uint32_t>(value) & 0xFFFF0000u; }

  size_t channels_;
  std::vector<float> values_;
};

double mean_of(const RowCodes& codes, size_t channel) {
  return std::ldexp(codes.mean[channel], codes.mean_power);
}

double factor_of(const RowCodes& codes, size_t token, const CodeForm& form) {
  const auto sixteenths = model::factor_sixteenths(codes.top, codes.factor[token], form);
  return sixteenths ? std::exp2(*sixteenths / 16.0) : 0;
}

double last_block(size_t channels) { return static_cast<double>(channels & (~channels + 1)); }

// The transform by its recursion: the halves' sums, then their differences.
void hadamard(std::span<double> block) {
  const size_t half = block.size() / 2;
  if (half == 0) return;
  for (size_t i = 0; i < half; ++i) {
    const double a = block[i];
    block[i] += block[i + half];
    block[i + half] = a - block[i + half];
  }
  hadamard(block.first(half));
  hadamard(block.last(half));
}

std::vector<double> transform(std::span<const double> row, int set) {
  std::vector<double> result(row.begin(), row.end());
  for (uint32_t i = 0; i < result.size(); ++i) {
    if (model::is_minus(set, i)) result[i] = -result[i];
  }
  for (size_t at = 0, size = 0; at < result.size(); at += size) {
    size = std::bit_floor(result.size() - at);
    const auto block = std::span(result).subspan(at, size);
    hadamard(block);
    for (double& value : block) {
      value *= std::sqrt(last_block(row.size()) / static_cast<double>(size));
    }
  }
  return result;
}

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The estimate of w · T(residual) / S from the first planes.
double estimate(const RowCodes& codes, size_t token, std::span<const double> w, int planes,
                const CodeForm& form) {
  double sum = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    sum += w[i] * model::code_value(codes.cell[token * w.size() + i], planes, form);
  }
  return sum * factor_of(codes, token, form) * form.ratio[static_cast<size_t>(planes - 1)] / 256;
}

// The length of a row's residual that its factor tells.
double length_of(const RowCodes& codes, size_t token, size_t channels, const CodeForm& form) {
  const double factor = factor_of(codes, token, form);
  return factor *
         std::sqrt(form.size / 16.0 * static_cast<double>(channels) * last_block(channels));
}

struct Quality {
  double slope;     // Of estimates against the truth: 1 without bias.
  double variance;  // Of their error, in units of |w|² |z|² / channels.
  double length;    // Told lengths against the true ones.
};

// Over many random queries on pages that `fill` makes.
template <typename Fill>
Quality measure(size_t channels, int planes, const CodeForm& form, const Fill& fill) {
  std::mt19937 random(static_cast<uint32_t>(channels) * 31 + static_cast<uint32_t>(planes));
  std::normal_distribution<double> normal;
  double cross = 0;
  double square = 0;
  double error = 0;
  double unit = 0;
  double told = 0;
  double length = 0;
  for (int page = 0; page < 16; ++page) {
    Rows rows(channels);
    fill(rows, random);
    const int set = page % 16;
    const RowCodes codes = rows.encode(form, set);
    for (size_t token = 0; token < kTokens; ++token) {
      if (codes.factor[token] == 0) continue;
      std::vector<double> residual(channels);
      std::vector<double> query(channels);
      for (size_t i = 0; i < channels; ++i) {
        residual[i] = rows.coded(token, i) - mean_of(codes, i);
      }
      const double energy = dot(residual, residual);
      told += length_of(codes, token, channels, form);
      length += std::sqrt(energy);
      for (int trial = 0; trial < 4; ++trial) {
        for (double& value : query) value = normal(random);
        const double truth = dot(query, residual);
        const double guess = estimate(codes, token, transform(query, set), planes, form);
        const double size = dot(query, query) * energy / static_cast<double>(channels);
        cross += guess * truth / size;
        square += truth * truth / size;
        error += (guess - truth) * (guess - truth) / size;
        unit += 1;
      }
    }
  }
  return {.slope = cross / square, .variance = error / unit, .length = told / length};
}

void fill_normal(Rows& rows, std::mt19937& random) {
  std::normal_distribution<float> normal;
  for (size_t token = 0; token < kTokens; ++token) {
    for (size_t i = 0; i < rows.channels(); ++i) rows.at(token, i) = normal(random);
  }
}

// Rows as models have them: a mean far from zero, channels of unlike sizes, rows of unlike lengths.
void fill_like_keys(Rows& rows, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> mean(rows.channels());
  std::vector<float> size(rows.channels());
  for (size_t i = 0; i < rows.channels(); ++i) {
    size[i] = std::exp(.7f * normal(random));
    mean[i] = 2 * size[i] * normal(random);
  }
  size[3] *= 8;
  mean[7] *= 20;
  for (size_t token = 0; token < kTokens; ++token) {
    const float length = std::exp(.25f * normal(random));
    for (size_t i = 0; i < rows.channels(); ++i) {
      rows.at(token, i) = mean[i] + length * size[i] * normal(random);
    }
  }
}

class EstimateTest : public testing::TestWithParam<size_t> {};

void expect_quality(size_t channels, const char* name, double slack, const auto& fill) {
  for (const CodeForm& form : {model::kKeyCodes, model::kValueCodes}) {
    for (int planes = 1; planes <= form.planes; ++planes) {
      const Quality quality = measure(channels, planes, form, fill);
      const double stated = form.variance[static_cast<size_t>(planes - 1)] / 4096.0;
      std::printf(
          "%s, %3zu channels, %d of %d planes: slope %.4f, length %.4f, variance %.4f (stated "
          "%.4f)\n",
          name, channels, planes, form.planes, quality.slope, quality.length, quality.variance,
          stated);
      EXPECT_NEAR(quality.slope, 1, .3 * slack);
      EXPECT_NEAR(quality.length, 1, .5 * slack);
      EXPECT_LT(quality.variance, (1 + slack) * stated);
      EXPECT_GT(quality.variance, (1 - 1.5 * slack) * stated);
    }
  }
}

TEST_P(EstimateTest, OfNormalRowsHasTheStatedVarianceAndNoBias) {
  expect_quality(GetParam(), "normal", .1, fill_normal);
}

TEST_P(EstimateTest, OfUnevenRowsIsNearThem) {
  expect_quality(GetParam(), "uneven", .3, fill_like_keys);
}

INSTANTIATE_TEST_SUITE_P(Channels, EstimateTest, testing::Values(64, 96, 128, 192, 256, 576));

class TransformTest : public testing::TestWithParam<size_t> {};

TEST_P(TransformTest, KeepsProductsUpToItsScale) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int64_t> number(-(1 << 20), 1 << 20);
  std::vector<int64_t> a(GetParam());
  std::vector<int64_t> b(GetParam());
  for (int64_t& value : a) value = number(random);
  for (int64_t& value : b) value = number(random);
  const std::vector<double> a_real(a.begin(), a.end());
  const std::vector<double> b_real(b.begin(), b.end());
  const auto ta = model::transform(a, 5);
  const auto tb = model::transform(b, 5);
  const std::vector<double> ta_real(ta.begin(), ta.end());
  const std::vector<double> tb_real(tb.begin(), tb.end());
  const double size = std::sqrt(dot(a_real, a_real) * dot(b_real, b_real));
  EXPECT_NEAR(dot(ta_real, tb_real) / last_block(GetParam()), dot(a_real, b_real), 2e-4 * size);

  const auto back = model::transpose(ta, 5);
  for (size_t i = 0; i < a.size(); ++i) {
    const double value = std::ldexp(static_cast<double>(back[i]), -15) / last_block(GetParam());
    EXPECT_NEAR(value, a_real[i], 2e-4 * (1 << 20)) << i;
  }
}

TEST_P(TransformTest, MixesEachBlockAndNothingElse) {
  for (size_t channel = 0; channel < GetParam(); channel += 16) {
    std::vector<int64_t> row(GetParam());
    row[channel] = 1 << 20;
    const auto mixed = model::transform(row, 3);
    for (size_t at = 0, size = 0; at < row.size(); at += size) {
      size = std::bit_floor(row.size() - at);
      const bool is_in_block = channel >= at && channel < at + size;
      const double expected =
          is_in_block ? std::sqrt(last_block(GetParam()) / static_cast<double>(size)) : 0;
      for (size_t i = at; i < at + size; ++i) {
        EXPECT_NEAR(std::abs(static_cast<double>(mixed[i])) / (1 << 20), expected, 2e-5);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Channels, TransformTest,
                         testing::Values(16, 48, 64, 80, 96, 112, 128, 192, 256, 528, 560, 576));

TEST(SignSets, AreBalancedAndUnlike) {
  for (int a = 0; a < NKV_SIGN_SETS; ++a) {
    for (int b = 0; b <= a; ++b) {
      int sum = 0;
      for (uint32_t channel = 0; channel < NKV_MAX_HEAD_DIM; ++channel) {
        const bool differs = model::is_minus(a, channel) != (b < a && model::is_minus(b, channel));
        sum += differs ? -1 : 1;
      }
      EXPECT_LT(std::abs(sum), 96) << a << ' ' << b;  // Four standard deviations.
    }
  }
}

TEST(SignSets, ChangeWithTheRunOfPages) {
  EXPECT_EQ(model::sign_set_of(7, 8), 0);
  EXPECT_EQ(model::sign_set_of(8, 8), 1);
  EXPECT_EQ(model::sign_set_of(127, 8), 15);
  EXPECT_EQ(model::sign_set_of(128, 8), 0);
  EXPECT_EQ(model::sign_set_of(3, 1), 3);
}

TEST(Planes, RefineOneAnother) {
  for (const CodeForm& form : {model::kKeyCodes, model::kValueCodes}) {
    for (int cell = 0; cell < 1 << form.planes; ++cell) {
      int sum = 0;
      for (int planes = 1; planes <= form.planes; ++planes) {
        const int weight = 1 << (form.planes - planes);
        sum += (cell & weight) != 0 ? weight : -weight;
        EXPECT_EQ(model::code_value(cell, planes, form), sum);
      }
      EXPECT_EQ(sum, 2 * cell - (1 << form.planes) + 1);
    }
  }
}

TEST(Example, IsThatOfTheSpecification) {
  Rows rows(64);
  for (size_t token = 0; token < kTokens; ++token) {
    for (size_t i = 0; i < 64; ++i) {
      rows.at(token, i) = static_cast<float>(static_cast<int>((token * 7 + i * 5) % 32) - 12);
    }
  }
  const RowCodes codes = rows.encode(model::kKeyCodes, 0);
  EXPECT_EQ(codes.mean_power, -5);
  EXPECT_EQ(codes.mean, std::vector<int8_t>(64, 112));
  EXPECT_EQ(codes.top, -39);
  EXPECT_EQ(codes.factor[0], 14);
  const std::vector<uint8_t> first(codes.cell.begin(), codes.cell.begin() + 8);
  EXPECT_EQ(first, (std::vector<uint8_t>{9, 4, 0, 0, 11, 5, 9, 10}));
}

std::vector<double> residual_of(const Rows& rows, const RowCodes& codes, size_t token) {
  std::vector<double> residual;
  for (size_t i = 0; i < rows.channels(); ++i) {
    residual.push_back(rows.coded(token, i) - mean_of(codes, i));
  }
  return residual;
}

TEST(BadInput, ZerosAreTheirMean) {
  const RowCodes codes = Rows(96).encode(model::kKeyCodes, 2);
  EXPECT_EQ(codes.top, 0);
  for (const int8_t mean : codes.mean) EXPECT_EQ(mean, 0);
  for (const uint8_t factor : codes.factor) EXPECT_EQ(factor, 0);
  for (const uint8_t cell : codes.cell) EXPECT_EQ(cell, 8);
}

TEST(BadInput, ChannelsOfZerosStayNearZero) {
  std::mt19937 random(2);
  Rows rows(64);
  fill_normal(rows, random);
  for (size_t token = 0; token < kTokens; ++token) {
    for (size_t i = 0; i < 32; ++i) rows.at(token, i) = 0;
  }
  const RowCodes codes = rows.encode(model::kKeyCodes, 2);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(codes.mean[i], 0);
  for (const uint8_t factor : codes.factor) EXPECT_NE(factor, 0);
}

TEST(BadInput, EqualRowsHaveTheRestOfTheMean) {
  Rows rows(64);
  for (size_t token = 0; token < kTokens; ++token) {
    for (size_t i = 0; i < 64; ++i) rows.at(token, i) = 1 + .013f * static_cast<float>(i);
  }
  const RowCodes codes = rows.encode(model::kKeyCodes, 2);
  for (size_t token = 0; token < kTokens; ++token) {
    EXPECT_EQ(codes.factor[token], 15);
    const auto residual = residual_of(rows, codes, token);
    EXPECT_LT(std::sqrt(dot(residual, residual) / 64), .008);
  }
  // Where eight bits hold the mean, nothing is left.
  Rows exact(64);
  for (size_t token = 0; token < kTokens; ++token) {
    for (size_t i = 0; i < 64; ++i) exact.at(token, i) = static_cast<float>(i) - 20;
  }
  for (const uint8_t factor : exact.encode(model::kKeyCodes, 2).factor) EXPECT_EQ(factor, 0);
}

TEST(BadInput, AnOutlierLeavesTheOtherRowsTheirMean) {
  std::mt19937 random(3);
  Rows rows(128);
  fill_normal(rows, random);
  rows.at(9, 77) = 1e4f;
  for (const CodeForm& form : {model::kKeyCodes, model::kValueCodes}) {
    const RowCodes codes = rows.encode(form, 2);
    for (size_t token = 0; token < kTokens; ++token) {
      EXPECT_EQ(codes.factor[token], token == 9 ? 15 : 0);
    }
    std::vector<double> query(128);
    query[77] = 1;
    const double guess =
        mean_of(codes, 77) + estimate(codes, 9, transform(query, 2), form.planes, form);
    EXPECT_NEAR(guess, 1e4, 1e3);
  }
}

TEST(BadInput, RowsMuchShorterThanTheLongestHaveNoResidual) {
  std::mt19937 random(4);
  Rows rows(64);
  fill_normal(rows, random);
  for (size_t token = 1; token < kTokens; ++token) {
    for (size_t i = 0; i < 64; ++i) rows.at(token, i) *= token % 2 != 0 ? .5f : .1f;
  }
  const RowCodes codes = rows.encode(model::kKeyCodes, 2);
  for (size_t token = 1; token < kTokens; ++token) {
    EXPECT_EQ(codes.factor[token] != 0, token % 2 != 0) << token;
  }
}

TEST(BadInput, WhatIsNotFiniteCountsAsZero) {
  std::mt19937 random(5);
  Rows rows(64);
  fill_normal(rows, random);
  rows.at(3, 5) = 0;
  rows.at(4, 6) = 0;
  const RowCodes with_zeros = rows.encode(model::kKeyCodes, 2);
  rows.at(3, 5) = std::numeric_limits<float>::infinity();
  rows.at(4, 6) = std::numeric_limits<float>::quiet_NaN();
  const RowCodes codes = rows.encode(model::kKeyCodes, 2);
  EXPECT_EQ(codes.cell, with_zeros.cell);
  EXPECT_EQ(codes.factor, with_zeros.factor);
  EXPECT_EQ(codes.mean, with_zeros.mean);
}

TEST(BadInput, TheGreatestAndTheLeastNumbersAreCoded) {
  std::mt19937 random(6);
  for (const float size : {1e-36f, 1e37f}) {
    Rows rows(64);
    fill_normal(rows, random);
    for (size_t token = 0; token < kTokens; ++token) {
      for (size_t i = 0; i < 64; ++i) rows.at(token, i) *= size;
    }
    const RowCodes codes = rows.encode(model::kKeyCodes, 2);
    const auto residual = residual_of(rows, codes, 5);
    const double guess = estimate(codes, 5, transform(residual, 2), 4, model::kKeyCodes);
    EXPECT_NEAR(guess / dot(residual, residual), 1, .06);
  }
}

TEST(Gains, ArePowersOfTheSixteenthOfAnOctave) {
  std::mt19937 random(7);
  Rows rows(64);
  fill_normal(rows, random);
  std::vector<int8_t> gains(64);
  for (size_t i = 0; i < 64; ++i) gains[i] = static_cast<int8_t>(static_cast<int>(i * 5 % 96) - 48);
  gains[0] = -128;
  gains[1] = 127;
  const RowCodes codes = rows.encode(model::kKeyCodes, 4, gains);
  double error = 0;
  double energy = 0;
  for (size_t token = 0; token < kTokens; ++token) {
    for (size_t i = 0; i < 64; ++i) {
      std::vector<double> one(64);
      one[i] = 1;
      const double exact = rows.coded(token, i, gains) - mean_of(codes, i);
      const double guess = estimate(codes, token, transform(one, 4), 4, model::kKeyCodes);
      if (codes.factor[token] == 0) continue;
      error += (guess - exact) * (guess - exact);
      energy += exact * exact;
    }
  }
  EXPECT_LT(error / energy, .02);
}

}  // namespace
}  // namespace nearkv::test

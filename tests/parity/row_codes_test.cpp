// The kernels that code rows against the golden model's way, for every width of block and every set
// of instructions that this processor has.
#include "row_codes.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "codes/row_codes.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

constexpr std::size_t kTokens = NKV_PAGE_TOKENS;

/// Rows as a page builder has them: numbers of bf16, none of them subnormal or not finite.
struct PageRows {
  std::size_t dim = 0;
  std::vector<float> numbers;    ///< [PAGE_TOKENS][dim].
  std::vector<float> magnitude;  ///< Per channel the largest.
  std::vector<std::int8_t> gains;
};

float usable(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) & 0xFFFF0000U;
  const std::uint32_t exponent = bits >> 23 & 0xFF;
  return exponent == 0 || exponent == 255 ? 0.0F : std::bit_cast<float>(bits);
}

constexpr int kKinds = 8;

/// A page of one of the kinds: even, uneven with two ranges of gains, very small and very large,
/// any pattern, one outlier, and rows that repeat or are their page's mean.
PageRows make_page(std::size_t dim, int kind, Random& random) {
  std::normal_distribution<float> normal;
  PageRows page{.dim = dim,
                .numbers = std::vector<float>(kTokens * dim),
                .magnitude = std::vector<float>(dim),
                .gains = std::vector<std::int8_t>(dim)};
  std::vector<float> size(dim, 1.0F);
  std::vector<float> mean(dim);
  for (std::size_t c = 0; c < dim && kind > 0; ++c) {
    size[c] = std::exp(normal(random));
    mean[c] = 3 * size[c] * normal(random);
    const int range = kind == 1 ? 32 : 256;
    page.gains[c] =
        static_cast<std::int8_t>(static_cast<int>(pick(random, 0, 255)) % range - range / 2);
  }
  const float scale = kind == 3 ? 1e-36F : kind == 4 ? 1e35F : 1.0F;
  for (std::size_t t = 0; t < kTokens; ++t) {
    const float length = kind == 7 && t % 3 == 0 ? 0 : std::exp(.5F * normal(random));
    for (std::size_t c = 0; c < dim; ++c) {
      float number = scale * (mean[c] + length * size[c] * normal(random));
      if (kind == 5) number = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
      if (kind == 6 && t == 5 && c == dim / 3) number = 1e4F;
      if (kind == 7 && t % 3 == 1) number = page.numbers[c];
      page.numbers[t * dim + c] = usable(number);
      page.magnitude[c] = std::max(page.magnitude[c], std::abs(page.numbers[t * dim + c]));
    }
  }
  return page;
}

/// What the kernels give, in the model's terms.
model::RowCodes encode_by_kernels(const PageRows& page, std::span<const std::int8_t> gains,
                                  unsigned set, const CodeForm& form) {
  const std::size_t plane_bytes = kTokens / 8 * page.dim;
  std::vector<std::uint8_t> factors(kTokens / 2);
  std::vector<std::uint8_t> planes(4 * plane_bytes);
  model::RowCodes codes;
  codes.mean.resize(page.dim);
  const CodeScales scales =
      encode_codes({page.numbers.data(), page.dim, page.dim, page.magnitude, gains}, set, form,
                   {factors.data(),
                    codes.mean.data(),
                    {planes.data(), planes.data() + plane_bytes, planes.data() + 2 * plane_bytes,
                     planes.data() + 3 * plane_bytes}});
  codes.mean_power = scales.mean_power;
  codes.top = scales.top;
  for (std::size_t t = 0; t < kTokens; ++t) {
    codes.factor[t] = static_cast<std::uint8_t>(factors[t / 2] >> (t % 2 * 4) & 15);
  }
  for (std::size_t i = 0; i < kTokens * page.dim; ++i) {
    unsigned cell = 0;
    for (int plane = 0; plane < form.planes; ++plane) {
      const std::uint8_t byte = planes[static_cast<std::size_t>(plane) * plane_bytes + i / 8];
      cell = 2 * cell + (byte >> (i % 8) & 1U);
    }
    codes.cell.push_back(static_cast<std::uint8_t>(cell));
  }
  return codes;
}

void expect_equal(const model::RowCodes& codes, const model::RowCodes& expected) {
  EXPECT_EQ(codes.mean_power, expected.mean_power);
  EXPECT_EQ(codes.top, expected.top);
  EXPECT_EQ(codes.mean, expected.mean);
  EXPECT_EQ(codes.factor, expected.factor);
  EXPECT_EQ(codes.cell, expected.cell);
}

class RowCodesTest : public testing::TestWithParam<std::size_t> {
 protected:
  ~RowCodesTest() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(RowCodesTest, AreTheModelsOnEverySetOfInstructions) {
  for (int kind = 0; kind < 3 * kKinds; ++kind) {
    Random random = case_random(static_cast<std::uint64_t>(kind) * 1000 + GetParam());
    const PageRows page = make_page(GetParam(), kind % kKinds, random);
    const unsigned set = pick(random, 0, NKV_SIGN_SETS - 1);
    std::vector<model::Number> numbers;
    for (const float number : page.numbers) {
      numbers.push_back(model::decode_binary32(std::bit_cast<std::uint32_t>(number)));
    }
    const auto keys =
        model::encode_rows(numbers, page.gains, static_cast<int>(set), model::kKeyCodes);
    const auto values = model::encode_rows(numbers, {}, static_cast<int>(set), model::kValueCodes);
    hwy::SetSupportedTargetsForTest(0);
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      SCOPED_TRACE(std::string(hwy::TargetName(target)) + ", kind " + std::to_string(kind));
      hwy::SetSupportedTargetsForTest(target);
      expect_equal(encode_by_kernels(page, page.gains, set, kKeyCodes), keys);
      expect_equal(encode_by_kernels(page, {}, set, kValueCodes), values);
    }
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Channels, RowCodesTest,
                         testing::Values(16, 32, 48, 64, 80, 96, 112, 128, 192, 256, 512, 528, 560,
                                         576));

TEST(CodeForms, AreTheModels) {
  for (const auto& [form, expected] :
       {std::pair{kKeyCodes, model::kKeyCodes}, std::pair{kValueCodes, model::kValueCodes}}) {
    EXPECT_EQ(form.planes, expected.planes);
    EXPECT_EQ(form.factor_step, expected.factor_step);
    EXPECT_EQ(form.cells_per_z, expected.cells_per_z);
    EXPECT_EQ(form.ratio, expected.ratio);
  }
  for (std::size_t i = 0; i < kOctaves.size(); ++i) {
    EXPECT_EQ(kOctaves[i], model::octave_table()[i]);
  }
  for (std::uint64_t value = 1; value < 300'000; value += 7) {
    EXPECT_EQ(log2_sixteenths(value), model::log2_sixteenths(value)) << value;
  }
}

}  // namespace
}  // namespace nearkv::test

// Attention that is approximate over pages of which some are compressed and decoded for it: what it
// promises of its error holds for the whole, not for the parts that it was made of.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "nearkv/pool.hpp"
#include "support/devices.hpp"
#include "support/elements.hpp"
#include "support/kv_data.hpp"
#include "support/offers.hpp"

namespace nearkv::test {
namespace {

constexpr std::size_t kDim = 64;
constexpr std::uint32_t kPages = 160;
constexpr std::size_t kTokens = kPages * NKV_PAGE_TOKENS;

struct Attended {
  std::vector<float> output = std::vector<float>(kDim);
  float lse = 0;
  float bound = -1;
};

/// |a - b| relative to |b|.
double error_of(const Attended& a, const Attended& b) {
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < kDim; ++i) {
    error += std::pow(a.output[i] - b.output[i], 2);
    norm += std::pow(b.output[i], 2);
  }
  return std::sqrt(error / norm);
}

class PoolBoundedTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::shared_ptr<Device> device = open_or_throw(GetParam());
    if (!offers_feature(*device, NKV_FEATURE_CODES)) GTEST_SKIP() << has_no("codes");
    codec_ = lossless_codecs(*device).front();
    Pool::Options options;
    options.codes = true;
    options.shape.head_dim = options.shape.value_dim = kDim;
    pool_ = create_or_throw(device, options);
    ASSERT_EQ(pool_->create_sequence(1), Status::kOk);
    fill();
  }

  /// Values whose means are opposite in the two halves, so that the halves' outputs cancel.
  void fill() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> keys(kTokens * kDim);
    std::vector<std::uint16_t> values(kTokens * kDim);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = to_bf16(normal(random));
      values[i] = to_bf16((i < keys.size() / 2 ? 1.0F : -1.0F) + 2 * normal(random));
    }
    const auto rows = [](const std::vector<std::uint16_t>& of) {
      return HostRows{reinterpret_cast<const std::byte*>(of.data()), kDim * 2, 0};
    };
    ASSERT_EQ(pool_->append(1, 0, rows(keys), rows(values), kTokens), Status::kOk);
  }

  void cool_half() {
    std::vector<std::uint32_t> pages(kPages / 2);
    std::iota(pages.begin(), pages.end(), 0);
    std::uint32_t moved = 0;
    ASSERT_EQ(pool_->transcode(1, 0, 0, pages, codec_, &moved), Status::kOk) << pool_->last_error();
  }

  Attended attend(AttendOptions options) {
    std::mt19937 random(77);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> query(kDim);
    for (std::uint16_t& element : query) element = to_bf16(normal(random));
    Attended attended;
    AttendRequest request;
    request.sequence = 1;
    request.query = std::as_bytes(std::span(query));
    request.output = attended.output;
    request.lse = std::span(&attended.lse, 1);
    request.bound = std::span(&attended.bound, 1);
    options.scale = 0.125F;
    EXPECT_EQ(pool_->attend(std::span(&request, 1), options), Status::kOk) << pool_->last_error();
    return attended;
  }

  std::uint8_t codec_ = 0;
  std::unique_ptr<Pool> pool_;
};

TEST_P(PoolBoundedTest, ABoundHoldsForPagesThatAreDecodedAndThoseThatAreNot) {
  const Attended dense = attend({});
  cool_half();
  for (const float error : {0.05F, 0.1F}) {
    AttendOptions options;
    options.mode = NKV_ATTEND_MODE_BOUNDED;
    options.error = error;
    options.cold = ColdPages::kDecode;
    pool_->reset_stats();
    const Attended bounded = attend(options);
    const double actual = error_of(bounded, dense);
    EXPECT_LE(actual, std::max(bounded.bound, 1.0F / 256)) << error;
    EXPECT_LE(actual, error);
    EXPECT_NEAR(bounded.lse, dense.lse, 2e-3);
    EXPECT_EQ(pool_->stats().dense_fallbacks, 1U);
  }
}

TEST_P(PoolBoundedTest, WithoutColdPagesNothingIsReadDense) {
  AttendOptions options;
  options.mode = NKV_ATTEND_MODE_BOUNDED;
  options.error = 0.5F;
  options.byte_cap = 128;
  options.cold = ColdPages::kDecode;
  const Attended all = attend(options);
  EXPECT_GT(all.bound, 0.0F);
  cool_half();
  options.cold = ColdPages::kSkip;
  const Attended half = attend(options);
  EXPECT_GT(half.bound, 0.0F);
  EXPECT_EQ(pool_->stats().dense_fallbacks, 0U);
}

TEST_P(PoolBoundedTest, ATailOfDecodedPagesIsThatOfWarmOnes) {
  AttendOptions options;
  options.mode = NKV_ATTEND_MODE_TAIL;
  options.top_k = 256;
  const Attended warm = attend(options);
  cool_half();
  options.cold = ColdPages::kDecode;
  const Attended decoded = attend(options);
  const Attended exact = [&] {
    options.mode = NKV_ATTEND_MODE_DENSE;
    return attend(options);
  }();
  for (std::size_t i = 0; i < kDim; ++i) {
    EXPECT_NEAR(warm.output[i], exact.output[i], 0.1) << i;
    EXPECT_NEAR(decoded.output[i], exact.output[i], 0.1) << i;
  }
  EXPECT_NEAR(decoded.lse, exact.lse, 0.02);
}

TEST_P(PoolBoundedTest, BothWaysAreTriedWhereTheFasterOneIsWanted) {
  const Attended exact = attend({});
  AttendOptions options;
  options.mode = NKV_ATTEND_MODE_TAIL;
  const Attended tail = attend(options);
  // Dense sums differ from call to call as threads share them, the more as values cancel here;
  // those by codes do not.
  constexpr double kSame = 1e-3;
  ASSERT_GT(error_of(tail, exact), 10 * kSame);
  pool_->reset_stats();
  options.if_faster = true;
  unsigned exact_calls = 0;
  for (int call = 0; call < 8; ++call) {
    // Nothing is learned of what is too short for codes.
    options.tokens = 1024;
    (void)attend(options);
    options.tokens = 0;
    const Attended attended = attend(options);
    const bool is_exact = error_of(attended, exact) < kSame;
    EXPECT_TRUE(is_exact || attended.output == tail.output) << call;
    exact_calls += is_exact ? 1 : 0;
  }
  EXPECT_EQ(exact_calls, 4U);
  EXPECT_EQ(pool_->stats().dense_fallbacks, 8U + 4U);
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolBoundedTest, testing::ValuesIn(device_uris()), device_name);

}  // namespace
}  // namespace nearkv::test

// What every device must do, against double precision and against itself.
#include <gtest/gtest.h>

#include <cmath>

#include "support/bench_device.hpp"
#include "support/devices.hpp"
#include "support/offers.hpp"
#include "support/reference.hpp"

namespace nearkv::test {
namespace {

constexpr double kDenseError = 1.0 / 256;  // ARITHMETIC.md 10.

/// Few distinct keys or rare large ones leave more elements than a page has room for below what
/// DELTA4 holds.
std::uint8_t form_for(Shape shape) {
  const bool raw = shape == Shape::kOutliers || shape == Shape::kDuplicates;
  return raw ? NKV_ROW_FORM_RAW : NKV_ROW_FORM_DELTA4;
}

Attention exact_attention(const KvData& data, std::span<const std::uint16_t> queries,
                          std::size_t row) {
  AttentionOptions options;
  options.scale = 1 / std::sqrt(static_cast<double>(data.head_dim));
  options.tokens = data.tokens;
  return reference_attention(data, queries.subspan(row * data.head_dim, data.head_dim), options);
}

class DeviceTest : public testing::TestWithParam<std::string> {
 protected:
  /// Of heads of so many channels, whatever the distribution.
  void expect_dense_attention(std::size_t dim) {
    for (const Shape shape : {Shape::kGaussian, Shape::kBiased, Shape::kTopics, Shape::kOutliers}) {
      SCOPED_TRACE("shape " + std::to_string(static_cast<int>(shape)) + ", dim " +
                   std::to_string(dim));
      bench_.clear();
      const KvData data = make_kv(shape, 500, dim, dim, 7);
      const StoredList list = append(&bench_, data, form_for(shape));
      ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
      const std::vector<std::uint16_t> queries = make_queries(data, 5, 3.0, 11);
      const AttendOutcome outcome = attend(&bench_, attend_command(&bench_, list, queries));
      ASSERT_EQ(outcome.completion.status, NKV_STATUS_OK);
      for (std::size_t row = 0; row < 5; ++row) {
        const Attention exact = exact_attention(data, queries, row);
        EXPECT_LT(max_norm_error(outcome.row(row, dim), exact.output), kDenseError);
        EXPECT_NEAR(outcome.lse[row], exact.lse, 1e-3 * (1 + std::abs(exact.lse)));
      }
    }
  }

  BenchDevice bench_{GetParam()};
};

TEST_P(DeviceTest, DenseAttentionMatchesDoublePrecision) {
  for (const std::size_t dim : {64U, 80U, 96U, 128U}) expect_dense_attention(dim);
}

TEST_P(DeviceTest, DenseAttentionOfWideHeadsMatchesDoublePrecision) {
  constexpr std::size_t kWide = 256;
  if (widest_head(bench_.device()) < kWide) GTEST_SKIP() << too_wide(bench_.device(), kWide);
  expect_dense_attention(kWide);
}

/// Threads add up what each of them takes, and in binary32 the order tells.
void expect_same_but_for_order(const std::vector<float>& numbers,
                               const std::vector<float>& expected) {
  ASSERT_EQ(numbers.size(), expected.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_NEAR(numbers[i], expected[i], 1e-5);
}

TEST_P(DeviceTest, ListsWithoutCodesAreAnsweredExactly) {
  if (!offers_feature(bench_.device(), NKV_FEATURE_CODES)) GTEST_SKIP() << has_no("codes");
  const KvData data = make_kv(Shape::kTopics, 2000, 128, 128, 3);
  const StoredList list = append(&bench_, data);
  ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
  const std::vector<std::uint16_t> queries = make_queries(data, 4, 3.0, 5);
  nkv_attend_command command = attend_command(&bench_, list, queries);
  command.error = 0.5F;
  const AttendOutcome dense = attend(&bench_, command);
  for (const std::uint8_t mode : {NKV_ATTEND_MODE_TAIL, NKV_ATTEND_MODE_BOUNDED}) {
    command.mode = mode;
    const AttendOutcome outcome = attend(&bench_, command);
    ASSERT_EQ(outcome.completion.status, NKV_STATUS_OK);
    EXPECT_EQ(outcome.completion.flags, NKV_COMPLETION_FLAG_DENSE_FALLBACK);
    EXPECT_EQ(outcome.completion.stream_bursts, dense.completion.stream_bursts);
    expect_same_but_for_order(outcome.output, dense.output);
    expect_same_but_for_order(outcome.lse, dense.lse);
    EXPECT_EQ(outcome.bound, std::vector<float>(4));
  }
  const TopKOutcome statistical =
      top_k(&bench_, topk_command(&bench_, list, queries, 64, NKV_SELECT_STATISTICAL));
  const TopKOutcome full =
      top_k(&bench_, topk_command(&bench_, list, queries, 64, NKV_SELECT_FULL));
  EXPECT_EQ(statistical.ids, full.ids);
  EXPECT_EQ(statistical.scores, full.scores);
  EXPECT_EQ(statistical.completion.stream_bursts, full.completion.stream_bursts);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceTest, testing::ValuesIn(device_uris()), device_name);

}  // namespace
}  // namespace nearkv::test

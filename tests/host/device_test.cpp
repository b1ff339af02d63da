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

// A radius of the greatest z covers whole cells of rows of up to 84 channels.
TEST_P(DeviceTest, StatisticalTopKOfWholeCellsIsThatOfTheFullScan) {
  if (!offers_planes(bench_.device())) GTEST_SKIP() << has_no("STATISTICAL");
  for (const Shape shape :
       {Shape::kGaussian, Shape::kBiased, Shape::kTopics, Shape::kOutliers, Shape::kDuplicates}) {
    for (const std::size_t dim : {64U, 80U}) {
      SCOPED_TRACE("shape " + std::to_string(static_cast<int>(shape)) + ", dim " +
                   std::to_string(dim));
      bench_.clear();
      const KvData data = make_kv(shape, 2000, dim, dim, 3);
      const StoredList list = append(&bench_, data, form_for(shape));
      ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
      const std::vector<std::uint16_t> queries = make_queries(data, 4, 3.0, 5);
      nkv_topk_command command = topk_command(&bench_, list, queries, 64, NKV_SELECT_STATISTICAL);
      command.z = 255;
      const TopKOutcome statistical = top_k(&bench_, command);
      const TopKOutcome full =
          top_k(&bench_, topk_command(&bench_, list, queries, 64, NKV_SELECT_FULL));
      ASSERT_EQ(statistical.completion.status, NKV_STATUS_OK);
      ASSERT_EQ(full.completion.status, NKV_STATUS_OK);
      EXPECT_EQ(statistical.ids, full.ids);
      EXPECT_EQ(statistical.scores, full.scores);
    }
  }
}

TEST_P(DeviceTest, TailIsCloseToDense) {
  if (!offers_feature(bench_.device(), NKV_FEATURE_ATTEND_TAIL)) GTEST_SKIP() << has_no("TAIL");
  const KvData data = make_kv(Shape::kTopics, 2000, 128, 128, 3);
  const StoredList list = append(&bench_, data);
  ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
  const std::vector<std::uint16_t> queries = make_queries(data, 4, 3.0, 5);
  nkv_attend_command command = attend_command(&bench_, list, queries);
  command.mode = NKV_ATTEND_MODE_TAIL;
  struct Step {
    std::uint16_t top_k;
    double error;
  };
  for (const Step& step : {Step{0, 1.0}, Step{16, 0.4}, Step{256, 0.05}, Step{2000, kDenseError}}) {
    command.top_k = step.top_k;
    const AttendOutcome outcome = attend(&bench_, command);
    ASSERT_EQ(outcome.completion.status, NKV_STATUS_OK);
    for (std::size_t row = 0; row < 4; ++row) {
      const double error =
          relative_error(outcome.row(row, 128), exact_attention(data, queries, row).output);
      EXPECT_LT(error, step.error) << "top_k " << step.top_k << ", row " << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceTest, testing::ValuesIn(device_uris()), device_name);

}  // namespace
}  // namespace nearkv::test

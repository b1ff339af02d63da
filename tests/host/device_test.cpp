// What every device must do: run on each URI in NEARKV_TEST_DEVICES.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "support/bench_device.hpp"
#include "support/reference.hpp"

namespace nearkv::test {
namespace {

class DeviceTest : public testing::TestWithParam<std::string> {
 protected:
  BenchDevice bench_{GetParam()};
};

TEST_P(DeviceTest, DenseAttentionMatchesDoublePrecision) {
  for (const Shape shape : {Shape::kGaussian, Shape::kBiased, Shape::kTopics, Shape::kOutliers}) {
    for (const std::size_t dim : {64U, 80U, 96U, 128U, 256U}) {
      bench_.clear();
      const KvData data = make_kv(shape, 500, dim, dim, 7);
      const StoredList list = append(&bench_, data);
      ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
      const std::vector<std::uint16_t> queries = make_queries(data, 5, 3.0, 11);
      const AttendOutcome outcome = attend(&bench_, attend_command(&bench_, list, queries));
      ASSERT_EQ(outcome.completion.status, NKV_STATUS_OK);
      for (std::size_t row = 0; row < 5; ++row) {
        AttentionOptions options;
        options.scale = 1 / std::sqrt(static_cast<double>(dim));
        options.tokens = data.tokens;
        const Attention exact =
            reference_attention(data, std::span(queries).subspan(row * dim, dim), options);
        EXPECT_LT(max_norm_error(outcome.row(row, dim), exact.output), 1.0 / 256)
            << "shape " << static_cast<int>(shape) << " dim " << dim << " row " << row;
        EXPECT_NEAR(outcome.lse[row], exact.lse, 1e-3 * (1 + std::abs(exact.lse)));
      }
    }
  }
}

TEST_P(DeviceTest, CertifiedTopKIsThatOfTheFullScan) {
  for (const Shape shape :
       {Shape::kGaussian, Shape::kBiased, Shape::kTopics, Shape::kOutliers, Shape::kDuplicates}) {
    for (const std::size_t dim : {64U, 80U, 128U}) {
      bench_.clear();
      const KvData data = make_kv(shape, 3000, dim, dim, 3);
      const StoredList list = append(&bench_, data);
      ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
      const std::vector<std::uint16_t> queries = make_queries(data, 4, 3.0, 5);
      const TopKOutcome certified =
          top_k(&bench_, topk_command(&bench_, list, queries, 64, NKV_SELECT_CERTIFIED));
      const TopKOutcome full =
          top_k(&bench_, topk_command(&bench_, list, queries, 64, NKV_SELECT_FULL));
      ASSERT_EQ(certified.completion.status, NKV_STATUS_OK);
      ASSERT_EQ(full.completion.status, NKV_STATUS_OK);
      EXPECT_EQ(certified.ids, full.ids) << static_cast<int>(shape) << " " << dim;
      EXPECT_EQ(certified.scores, full.scores);
      printf("shape %d dim %zu: bursts %u %u %u of %u\n", (int)shape, dim,
             certified.completion.stream_bursts, certified.completion.refine_bursts,
             certified.completion.exact_bursts, full.completion.stream_bursts);
    }
  }
}

TEST_P(DeviceTest, TailIsCloseToDense) {
  const KvData data = make_kv(Shape::kTopics, 4000, 128, 128, 3);
  const StoredList list = append(&bench_, data);
  const std::vector<std::uint16_t> queries = make_queries(data, 4, 3.0, 5);
  nkv_attend_command command = attend_command(&bench_, list, queries);
  command.mode = NKV_ATTEND_MODE_TAIL;
  for (int k : {0, 16, 64, 256, 4000}) {
    command.top_k = k;
    const AttendOutcome outcome = attend(&bench_, command);
    ASSERT_EQ(outcome.completion.status, NKV_STATUS_OK);
    for (std::size_t row = 0; row < 4; ++row) {
      AttentionOptions options;
      options.scale = 1 / std::sqrt(128.0);
      options.tokens = data.tokens;
      const Attention exact =
          reference_attention(data, std::span(queries).subspan(row * 128, 128), options);
      printf("k %d row %zu err %.4f lse %.4f %.4f\n", k, row,
             relative_error(outcome.row(row, 128), exact.output), outcome.lse[row], exact.lse);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceTest, testing::Values("cpu:?memory=256MiB&threads=2"));

}  // namespace
}  // namespace nearkv::test

// Lists of pages without codes: what codes would answer is answered exactly.
#include <gtest/gtest.h>

#include "attention.hpp"
#include "topk_commands.hpp"

namespace nearkv::test {
namespace {

uint64_t bursts(const nkv_completion& completion) {
  return uint64_t{completion.stream_bursts} + completion.refine_bursts + completion.exact_bursts +
         completion.value_bursts;
}

class PlainList : public testing::Test {
 protected:
  static constexpr uint32_t kTokens = 320;

  AttendResult run(AttendOptions options, uint8_t mode) {
    options.mode = mode;
    return attend(device_, sequence_, query_, 64, options);
  }

  Device device_;
  Random random_{1};
  Rows rows_ = normal_rows(NKV_DTYPE_BF16, kTokens, 64, 1.0, random_);
  Rows query_ = normal_rows(NKV_DTYPE_BF16, 3, 64, 1.0, random_);
  Sequence sequence_ = append(device_, rows_, rows_);
};

TEST_F(PlainList, TailAndBoundedAreDense) {
  const AttendOptions all{.top_k = 8};
  const AttendOptions some{.tokens = 300, .window = 100, .sinks = 3, .top_k = 8};
  const AttendOptions capped{.soft_cap = 20.0F, .byte_cap = 10};
  for (const AttendOptions& options : {all, some, capped, AttendOptions{.error = 1.0F}}) {
    const auto dense = run(options, NKV_ATTEND_MODE_DENSE);
    for (const uint8_t mode : {NKV_ATTEND_MODE_TAIL, NKV_ATTEND_MODE_BOUNDED}) {
      const auto result = run(options, mode);
      ASSERT_EQ(result.completion.status, NKV_STATUS_OK);
      EXPECT_EQ(result.completion.flags, NKV_COMPLETION_FLAG_DENSE_FALLBACK);
      EXPECT_EQ(result.completion.rounds, 0);
      EXPECT_EQ(result.completion.stream_bursts, dense.completion.stream_bursts);
      EXPECT_EQ(bursts(result.completion), dense.completion.stream_bursts);
      EXPECT_EQ(result.output, dense.output);
      EXPECT_EQ(result.log_sum_exp, dense.log_sum_exp);
      EXPECT_EQ(result.bound, std::vector<double>(3, 0.0));
    }
  }
}

TEST_F(PlainList, StatisticalIsFull) {
  TopkOptions options{.mode = NKV_SELECT_FULL, .top_k = 20, .tokens = 300, .window = 200};
  const auto full = topk(device_, sequence_, query_, options);
  options.mode = NKV_SELECT_STATISTICAL;
  const auto result = topk(device_, sequence_, query_, options);
  ASSERT_EQ(result.completion.status, NKV_STATUS_OK);
  EXPECT_EQ(result.rows, full.rows);
  EXPECT_EQ(result.completion.stream_bursts, full.completion.stream_bursts);
  EXPECT_EQ(bursts(result.completion), full.completion.stream_bursts);
}

TEST_F(PlainList, SoftCapsAreAnsweredExactlyEvenWithCodes) {
  sequence_ = append_coded(device_, rows_, rows_);
  const AttendOptions options{.soft_cap = 20.0F};
  const auto result = run(options, NKV_ATTEND_MODE_BOUNDED);
  EXPECT_EQ(result.completion.flags, NKV_COMPLETION_FLAG_DENSE_FALLBACK);
  EXPECT_EQ(result.output, run(options, NKV_ATTEND_MODE_DENSE).output);
}

}  // namespace
}  // namespace nearkv::test

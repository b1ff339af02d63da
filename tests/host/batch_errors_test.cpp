// What goes wrong with one request of a batch is that request's alone.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "support/devices.hpp"
#include "support/find_page.hpp"
#include "support/layer_rows.hpp"
#include "support/offers.hpp"

namespace nearkv::test {
namespace {

constexpr std::size_t kTokens = 128;
constexpr std::uint64_t kSequences = 3;
constexpr std::uint64_t kStagingBytes = 128 << 10;

/// Three sequences with tokens of their own in layer 1, and a batch that attends to all heads of
/// all of them.
class BatchErrorsTest : public testing::TestWithParam<std::string> {
 protected:
  BatchErrorsTest() {
    for (std::uint64_t sequence = 0; sequence < kSequences; ++sequence) {
      const LayerRows rows(kTokens, static_cast<std::uint32_t>(sequence));
      if (pool_->create_sequence(sequence) != Status::kOk ||
          append(pool_.get(), sequence, 1, rows, 0, kTokens) != Status::kOk) {
        throw std::runtime_error(pool_->last_error());
      }
    }
  }

  struct Answers {
    Status status = Status::kOk;           ///< Of the call.
    std::vector<Status> statuses;          ///< [requests]
    std::vector<std::vector<float>> rows;  ///< [requests]: output and LSE.
  };

  /// Requests number 2 * sequence + KV head.
  Answers attend(const AttendOptions& options = {}, std::uint16_t rows = 2) {
    Answers answers;
    constexpr std::size_t kRequests = kSequences * kHeads;
    answers.statuses.assign(kRequests, Status::kInternal);
    answers.rows.assign(kRequests, std::vector<float>(rows * (kDim + 1), NAN));
    std::vector<AttendRequest> requests(kRequests);
    for (std::size_t i = 0; i < kRequests; ++i) {
      requests[i].sequence = i / kHeads;
      requests[i].layer = 1;
      requests[i].kv_head = static_cast<std::uint16_t>(i % kHeads);
      requests[i].rows = rows;
      requests[i].query = std::as_bytes(std::span(queries_).first(rows * kDim));
      requests[i].output = std::span(answers.rows[i]).first(rows * kDim);
      requests[i].lse = std::span(answers.rows[i]).last(rows);
      requests[i].status = &answers.statuses[i];
    }
    AttendOptions scaled = options;
    scaled.scale = 0.125F;
    answers.status = pool_->attend(requests, scaled);
    return answers;
  }

  /// Every request but these has the answer that it had before.
  static void expect_others_as(const Answers& before, const Answers& now,
                               const std::vector<std::size_t>& failed) {
    for (std::size_t i = 0; i < before.rows.size(); ++i) {
      if (std::ranges::find(failed, i) != failed.end()) continue;
      EXPECT_EQ(now.statuses[i], Status::kOk) << "request " << i;
      EXPECT_EQ(now.rows[i], before.rows[i]) << "request " << i;
    }
  }

  static Pool::Options options() {
    Pool::Options options = small_pool();
    options.staging_bytes = kStagingBytes;
    return options;
  }

  const std::vector<std::uint16_t> queries_ =
      make_queries(LayerRows(64, 9).heads[0], NKV_MAX_GROUP, 3.0, 9);
  const std::shared_ptr<Device> device_ = open_or_throw(comparing_always(GetParam()));
  std::unique_ptr<Pool> pool_ = create_or_throw(device_, options());
};

TEST_P(BatchErrorsTest, ADamagedPageFailsItsRequestAlone) {
  const Answers whole = attend();
  ASSERT_EQ(whole.status, Status::kOk) << pool_->last_error();
  std::byte* const page = find_page(device_->memory(), 1, 0, NKV_PAGE_TOKENS);
  page[sizeof(nkv_page_header) + 3] ^= std::byte{4};
  const Answers answers = attend();
  EXPECT_EQ(answers.status, Status::kCorrupt);
  EXPECT_EQ(answers.statuses[2], Status::kCorrupt);
  EXPECT_NE(pool_->last_error().find("sequence 1, layer 1, KV head 0"), std::string::npos)
      << pool_->last_error();
  expect_others_as(whole, answers, {2});

  page[sizeof(nkv_page_header) + 3] ^= std::byte{4};
  const Answers mended = attend();
  EXPECT_EQ(mended.status, Status::kOk);
  expect_others_as(whole, mended, {});
}

TEST_P(BatchErrorsTest, ABatchBeyondTheStagingAreaIsAnsweredInParts) {
  constexpr std::uint16_t kRows = NKV_MAX_GROUP;
  if (largest_group(*device_) < kRows) {
    GTEST_SKIP() << "skipped: so few rows as this device takes all fit the smallest staging area";
  }
  static_assert(kSequences * kHeads * kRows * kDim * (2 + sizeof(float)) > 2 * kStagingBytes);
  const Answers whole = attend({}, kRows);
  ASSERT_EQ(whole.status, Status::kOk) << pool_->last_error();
  find_page(device_->memory(), 1, 1, 0)[sizeof(nkv_page_header)] ^= std::byte{1};
  const Answers answers = attend({}, kRows);
  EXPECT_EQ(answers.statuses[3], Status::kCorrupt);
  expect_others_as(whole, answers, {3});
}

TEST_P(BatchErrorsTest, ASequenceThatIsGoneFailsItsRequestsAlone) {
  const Answers whole = attend();
  ASSERT_EQ(pool_->drop(0), Status::kOk);
  const Answers answers = attend();
  EXPECT_EQ(answers.status, Status::kNotFound);
  EXPECT_EQ(answers.statuses[0], Status::kNotFound);
  EXPECT_EQ(answers.statuses[1], Status::kNotFound);
  EXPECT_NE(pool_->last_error().find("sequence 0, layer 1, KV head 0"), std::string::npos)
      << pool_->last_error();
  expect_others_as(whole, answers, {0, 1});
}

TEST_P(BatchErrorsTest, ACompressedPageFailsItsRequestAlone) {
  if (!offers_codec(*device_, NKV_CODEC_INT8)) GTEST_SKIP() << has_no("codec INT8");
  const Answers whole = attend();
  const std::uint32_t second = 1;
  std::uint32_t moved = 0;
  ASSERT_EQ(pool_->transcode(2, 1, 1, std::span(&second, 1), NKV_CODEC_INT8, &moved), Status::kOk)
      << pool_->last_error();
  const Answers answers = attend();
  EXPECT_EQ(answers.status, Status::kColdPage);
  EXPECT_EQ(answers.statuses[5], Status::kColdPage);
  expect_others_as(whole, answers, {5});

  AttendOptions decoding;
  decoding.cold = ColdPages::kDecode;
  find_page(device_->memory(), 2, 1, NKV_PAGE_TOKENS)[sizeof(nkv_page_header) + 3] ^= std::byte{4};
  const Answers decoded = attend(decoding);
  EXPECT_EQ(decoded.status, Status::kCorrupt) << pool_->last_error();
  expect_others_as(whole, decoded, {5});
}

// Whatever was answered before the device was reset is right; the rest fails as the call does.
TEST_P(BatchErrorsTest, AResetAmidABatchFailsWhatHasNoAnswer) {
  const Answers whole = attend();
  for (unsigned round = 0; round < 20; ++round) {
    std::thread resets([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(10 * round));
      device_->write_csr(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
    });
    const Answers answers = attend();
    resets.join();
    for (std::size_t i = 0; i < answers.statuses.size(); ++i) {
      if (answers.statuses[i] == Status::kOk) {
        EXPECT_EQ(answers.rows[i], whole.rows[i]) << "request " << i;
      } else {
        EXPECT_EQ(answers.statuses[i], answers.status) << "request " << i;
      }
    }
    if (answers.status != Status::kOk) {
      EXPECT_EQ(answers.status, Status::kAborted) << pool_->last_error();
      EXPECT_EQ(attend().statuses[0], Status::kAborted);  // Until the pool is opened anew.
    }
    pool_.reset();
    ASSERT_EQ(Pool::open(device_, options(), &pool_), Status::kOk);
    expect_others_as(whole, attend(), {});
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, BatchErrorsTest, testing::ValuesIn(device_uris()), device_name);

}  // namespace
}  // namespace nearkv::test

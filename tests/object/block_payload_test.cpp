// Payload on a medium that does not answer in time.
#include "object/block_payload.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <deque>

#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

using std::chrono::milliseconds;

/// The test's hand on the engines of a payload.
struct Medium {
  bool hangs = false;    ///< Transfers are held.
  bool settles = false;  ///< Held ones end when their file is closed, not before.
  int cancellations = 0;
  std::vector<BlockTransfer> held;
  std::vector<BlockTransfer> passed;
};

/// What the kernel may do with memory that it has.
void land(const BlockTransfer& transfer) {
  std::memset(transfer.memory.data(), 0x55, transfer.memory.size());
}

class LateEngine final : public BlockEngine {
 public:
  LateEngine(std::unique_ptr<BlockEngine> inner, Medium* medium)
      : inner_(std::move(inner)), medium_(medium) {}

  [[nodiscard]] const char* name() const override { return "late"; }

  void start(const BlockTransfer& transfer) override {
    (medium_->hangs ? medium_->held : medium_->passed).push_back(transfer);
    if (!medium_->hangs) inner_->start(transfer);
  }

  std::size_t reap(std::span<BlockResult> results, std::chrono::nanoseconds timeout) override {
    if (ended_.empty()) return inner_->reap(results, timeout);
    results[0] = ended_.front();
    ended_.pop_front();
    return 1;
  }

  void cancel_all() override {
    inner_->cancel_all();
    // The first time it is the batch that has run out of time.
    if (++medium_->cancellations < 2 || !medium_->settles) return;
    for (const BlockTransfer& transfer : medium_->held) {
      land(transfer);
      ended_.push_back({transfer.id, -ECANCELED});
    }
  }

 private:
  std::unique_ptr<BlockEngine> inner_;
  Medium* medium_;
  std::deque<BlockResult> ended_;
};

class LatePayloadTest : public testing::Test {
 protected:
  void SetUp() override {
    BlockFileOptions options;
    options.path = file_.path();
    options.bytes = 1 << 20;
    options.timeout = milliseconds(100);
    options.wrap = [medium = medium_](std::unique_ptr<BlockEngine> engine) {
      return std::make_unique<LateEngine>(std::move(engine), medium);
    };
    std::string reason;
    ASSERT_EQ(BlockPayload::open(options, &payload_, &reason), Status::kOk) << reason;
  }

  Status read() {
    std::vector<std::byte> target(2 * kBlockBytes);
    const std::span<std::byte> memory(target);
    TargetCursor cursor(std::span(&memory, 1));
    SegmentSink sink(&cursor);
    const Extent extent{0, 2};
    std::uint32_t crc = 0;
    return payload_->read(std::span(&extent, 1), 0, target.size(), &sink, &crc);
  }

  TemporaryFile file_{"block_payload"};
  /// Never destroyed: to a leak checker, what a medium keeps for good is in use.
  Medium* const medium_ = [] {
    static std::deque<Medium>& media = *new std::deque<Medium>;
    return &media.emplace_back();
  }();
  std::unique_ptr<BlockPayload> payload_;
};

TEST_F(LatePayloadTest, StagingStaysUntilTheTransfersOfAClosedFileHaveEnded) {
  medium_->hangs = true;
  medium_->settles = true;
  EXPECT_EQ(read(), Status::kTimeout);
  EXPECT_EQ(medium_->cancellations, 2) << "the file is still open";
  medium_->hangs = false;
  EXPECT_EQ(read(), Status::kOk);
}

TEST_F(LatePayloadTest, StagingOfTransfersThatNeverEndIsNobodyElses) {
  medium_->hangs = true;
  EXPECT_EQ(read(), Status::kTimeout);
  medium_->hangs = false;
  EXPECT_EQ(read(), Status::kOk);
  ASSERT_EQ(medium_->held.size(), 1U);
  ASSERT_EQ(medium_->passed.size(), 1U);
  EXPECT_NE(medium_->held[0].memory.data(), medium_->passed[0].memory.data());
  land(medium_->held[0]);
}

}  // namespace
}  // namespace nearkv::test

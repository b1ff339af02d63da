// Batches on a block file against an image of it in memory, with the transfers failing, falling
// short and hanging underneath.
#include "media/block_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "block_file_fixture.hpp"

namespace nearkv::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Engines, BlockFileTest,
                         testing::Values(BlockEngineKind::kUring, BlockEngineKind::kThreads),
                         engine_name);

/// Long enough for a few real transfers on a busy machine.
constexpr std::chrono::milliseconds kHangTimeout{400};

/// Cuts the file into extents in random order, each to be read, written or left alone.
struct RandomBatch {
  std::vector<BlockMemory> memories;
  std::vector<BlockRequest> requests;

  RandomBatch(Random& random, std::uint64_t file_bytes) {
    for (std::uint64_t at = 0; at < file_bytes;) {
      const std::uint64_t blocks =
          pick(random, 0, 3) == 0 ? pick(random, 0, 80) : pick(random, 0, 4);
      const std::uint64_t bytes = std::min(blocks * kBlockBytes, file_bytes - at);
      if (const std::uint32_t choice = pick(random, 0, 2); choice != 0) {
        memories.emplace_back(bytes, random() % 2 == 0 ? 0 : pick(random, 1, kBlockBytes - 1));
        fill(memories.back().span(), random);
        requests.push_back(choice == 1 ? read_request(at, memories.back().span())
                                       : write_request(at, memories.back().span()));
      }
      at += bytes == 0 ? kBlockBytes : bytes;
    }
    std::shuffle(requests.begin(), requests.end(), random);
  }

  /// Compares what was read with `image`, and puts what was written into it.
  void settle(std::vector<std::byte>* image) {
    for (const BlockRequest& request : requests) {
      ASSERT_EQ(request.status, Status::kOk);
      ASSERT_EQ(request.system_error, 0);
      const auto at = image->begin() + static_cast<std::ptrdiff_t>(request.offset_bytes);
      if (request.operation == BlockOperation::kRead) {
        ASSERT_TRUE(std::equal(request.memory.begin(), request.memory.end(), at));
      } else {
        std::copy(request.memory.begin(), request.memory.end(), at);
      }
    }
  }
};

TEST_P(BlockFileTest, ReadsWhatWasWrittenWhereverItLies) {
  const auto chosen = options(place_.path());
  OPEN_OR_SKIP(file, chosen);
  std::vector<std::byte> image(kBytes);
  for (std::uint64_t number = 0; number < 40; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    RandomBatch batch(random, kBytes);
    ASSERT_EQ(file->run(batch.requests), Status::kOk) << file->last_error();
    batch.settle(&image);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(file->sync(), Status::kOk);
  EXPECT_EQ(control_->syncs, 1U);
  EXPECT_LE(control_->most_in_flight, chosen.depth);
  EXPECT_EQ(control_->most_in_flight, chosen.depth) << "the queue is used";

  // Seen from outside, and by another object.
  std::vector<std::byte> seen(kBytes);
  const int fd = ::open(place_.path().c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(::pread(fd, seen.data(), kBytes, 0), static_cast<::ssize_t>(kBytes));
  ::close(fd);
  EXPECT_EQ(seen, image);
  OPEN_OR_SKIP(second, options(place_.path(), 0));
  EXPECT_EQ(second->bytes(), kBytes);
  std::fill(seen.begin(), seen.end(), std::byte{0});
  BlockRequest request = read_request(0, seen);
  EXPECT_EQ(second->run({&request, 1}), Status::kOk);
  EXPECT_EQ(seen, image);
}

TEST_P(BlockFileTest, ResumesTransfersThatFallShort) {
  OPEN_OR_SKIP(file, options(place_.path()));
  Random faults = case_random(1000);
  control_->choose = [&](const BlockTransfer&) -> Fault {
    switch (pick(faults, 0, 3)) {
      case 0:  // whole blocks
        return {Fault::kShort, 0, kBlockBytes * pick(faults, 1, 8)};
      case 1:  // one and a half: the half is done again
        return {Fault::kShort, 0, 6144};
      case 2:
        return {Fault::kError, pick(faults, 0, 1) == 0 ? EAGAIN : EINTR, 0};
      default:
        return {};
    }
  };
  std::vector<std::byte> image(kBytes);
  for (std::uint64_t number = 0; number < 20; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    RandomBatch batch(random, kBytes);
    ASSERT_EQ(file->run(batch.requests), Status::kOk) << file->last_error();
    batch.settle(&image);
    if (HasFatalFailure()) return;
  }
}

TEST_P(BlockFileTest, LessThanABlockNowAndThenIsNotTheEnd) {
  OPEN_OR_SKIP(file, options(place_.path()));
  BlockMemory memory(16 * kBlockBytes, 5);
  Random random = case_random(0);
  fill(memory.span(), random);
  BlockRequest request = write_request(0, memory.span());
  ASSERT_EQ(file->run({&request, 1}), Status::kOk) << file->last_error();
  std::size_t transfers = 0;
  control_->choose = [&](const BlockTransfer&) {
    return Fault{Fault::kShort, 0, ++transfers % 3 == 0 ? kBlockBytes : 100};
  };
  BlockMemory back(16 * kBlockBytes, 0);
  request = read_request(0, back.span());
  EXPECT_EQ(file->run({&request, 1}), Status::kOk) << file->last_error();
  EXPECT_TRUE(std::ranges::equal(back.span(), memory.span()));
  EXPECT_EQ(transfers, 48U);
  // Three times in a row is.
  control_->choose = [](const BlockTransfer&) { return Fault{Fault::kShort, 0, 100}; };
  EXPECT_EQ(file->run({&request, 1}), Status::kIoError);
}

TEST_P(BlockFileTest, AnErrorIsThatOfItsRequestOnly) {
  OPEN_OR_SKIP(file, options(place_.path()));
  struct Expectation {
    int system_error;
    Status status;
  };
  for (const Expectation expected :
       {Expectation{EIO, Status::kIoError}, Expectation{ENOSPC, Status::kPoolFull},
        Expectation{EDQUOT, Status::kPoolFull}, Expectation{EBADF, Status::kIoError}}) {
    // The second of three requests, in its third piece.
    constexpr std::uint64_t kBad = 600 << 10;
    control_->choose = [&](const BlockTransfer& transfer) -> Fault {
      const bool bad =
          transfer.offset_bytes <= kBad && kBad < transfer.offset_bytes + transfer.memory.size();
      return bad ? Fault{Fault::kError, expected.system_error, 0} : Fault{};
    };
    BlockMemory memory(1 << 20, 8);
    Random random = case_random(0);
    fill(memory.span(), random);
    std::vector<BlockRequest> requests = {
        write_request(0, memory.span().first(256 << 10)),
        write_request(256 << 10, memory.span().subspan(256 << 10, 512 << 10)),
        write_request(768 << 10, memory.span().subspan(768 << 10))};
    EXPECT_EQ(file->run(requests), expected.status);
    EXPECT_NE(file->last_error().find("writing 524288 bytes at 262144"), std::string::npos)
        << file->last_error();
    EXPECT_EQ(requests[0].status, Status::kOk);
    EXPECT_EQ(requests[1].status, expected.status);
    EXPECT_EQ(requests[1].system_error, expected.system_error);
    EXPECT_EQ(requests[2].status, Status::kOk);

    control_->choose = [](const BlockTransfer&) { return Fault(); };
    BlockMemory back(256 << 10, 0);
    BlockRequest request = read_request(768 << 10, back.span());
    EXPECT_EQ(file->run({&request, 1}), Status::kOk) << "the file goes on";
    EXPECT_TRUE(std::ranges::equal(back.span(), memory.span().subspan(768 << 10)));
  }
}

TEST_P(BlockFileTest, AFailedSyncIsTold) {
  OPEN_OR_SKIP(file, options(place_.path()));
  control_->choose = [](const BlockTransfer&) { return Fault{Fault::kError, EIO, 0}; };
  EXPECT_EQ(file->sync(), Status::kIoError);
  control_->choose = [](const BlockTransfer&) { return Fault{Fault::kError, ENOSPC, 0}; };
  EXPECT_EQ(file->sync(), Status::kPoolFull);
}

TEST_P(BlockFileTest, WhatHangsEndsInTimeoutAndTheFileGoesOn) {
  for (const bool heeds_cancel : {true, false}) {
    for (const std::size_t offset : {std::size_t{0}, std::size_t{16}}) {
      SCOPED_TRACE((heeds_cancel ? "cancelled" : "deaf") + std::to_string(offset));
      *control_ = FaultControl();
      control_->heeds_cancel = heeds_cancel;
      auto chosen = options(place_.path());
      chosen.timeout = kHangTimeout;
      OPEN_OR_SKIP(file, chosen);
      // One of four requests hangs; the queue has room for the others.
      control_->choose = [](const BlockTransfer& transfer) {
        return Fault{transfer.offset_bytes == kBlockBytes ? Fault::kHold : Fault::kNone, 0, 0};
      };
      BlockMemory memory(4 * kBlockBytes, offset);
      std::vector<BlockRequest> requests;
      for (std::size_t block = 0; block < 4; ++block) {
        requests.push_back(read_request(block * kBlockBytes,
                                        memory.span().subspan(block * kBlockBytes, kBlockBytes)));
      }
      EXPECT_EQ(file->run(requests), Status::kTimeout);
      for (std::size_t block = 0; block < 4; ++block) {
        EXPECT_EQ(requests[block].status, block == 1 ? Status::kTimeout : Status::kOk);
      }
      EXPECT_EQ(file->in_flight(), heeds_cancel ? 0U : 1U);
      // Others are served beside it, and its result, when it comes, is nobody's.
      BlockRequest other = read_request(0, memory.span().first(kBlockBytes));
      EXPECT_EQ(file->run({&other, 1}), Status::kOk);
      control_->released = true;
      for (int look = 0; look < 1000 && file->in_flight() != 0; ++look) ::usleep(1000);
      EXPECT_EQ(file->in_flight(), 0U);
    }
  }
}

TEST_P(BlockFileTest, AFullQueueThatHangsEndsInTimeoutToo) {
  auto chosen = options(place_.path());
  chosen.timeout = kHangTimeout;
  control_->heeds_cancel = false;
  control_->choose = [](const BlockTransfer&) { return Fault{Fault::kHold, 0, 0}; };
  BlockMemory memory(64 * kBlockBytes, 0);
  std::vector<BlockRequest> requests;
  for (std::size_t block = 0; block < 64; ++block) {
    requests.push_back(
        read_request(block * kBlockBytes, memory.span().subspan(block * kBlockBytes, kBlockBytes)));
  }
  OPEN_OR_SKIP(file, chosen);
  EXPECT_EQ(file->run(requests), Status::kTimeout);
  for (const BlockRequest& request : requests) EXPECT_EQ(request.status, Status::kTimeout);
  EXPECT_EQ(file->in_flight(), chosen.depth);
  EXPECT_EQ(file->sync(), Status::kTimeout);
  control_->released = true;
  control_->choose = [](const BlockTransfer&) { return Fault(); };
  for (int look = 0; look < 1000 && file->in_flight() != 0; ++look) ::usleep(1000);
  EXPECT_EQ(file->run(requests), Status::kOk);
}

TEST_P(BlockFileTest, ClosesWithTransfersInFlight) {
  for (const bool heeds_cancel : {true, false}) {
    *control_ = FaultControl();
    auto chosen = options(place_.path());
    chosen.timeout = std::chrono::milliseconds(10);
    control_->heeds_cancel = heeds_cancel;
    control_->choose = [](const BlockTransfer&) { return Fault{Fault::kHold, 0, 0}; };
    BlockMemory memory(kBlockBytes, 1);
    BlockRequest request = read_request(0, memory.span());
    OPEN_OR_SKIP(file, chosen);
    EXPECT_EQ(file->run({&request, 1}), Status::kTimeout);
  }  // closing a file whose transfer never ends must end
}

TEST_P(BlockFileTest, RefusesWhatIsNotWholeBlocksOfTheFile) {
  OPEN_OR_SKIP(file, options(place_.path()));
  BlockMemory memory(4 * kBlockBytes, 0);
  std::fill(memory.span().begin(), memory.span().end(), std::byte{7});
  const auto span = memory.span();
  const BlockRequest good = write_request(0, span.first(kBlockBytes));
  const BlockRequest bad[] = {
      read_request(512, span.first(kBlockBytes)),
      read_request(0, span.first(512)),
      write_request(kBytes, span.first(kBlockBytes)),
      write_request(kBytes - kBlockBytes, span.first(2 * kBlockBytes)),
      write_request(~std::uint64_t{0} - kBlockBytes + 1, span.first(kBlockBytes)),
      {BlockOperation::kSync, 0, span.first(kBlockBytes), Status::kOk, 0},
  };
  for (const BlockRequest& request : bad) {
    std::vector<BlockRequest> batch = {good, request};
    EXPECT_EQ(file->run(batch), Status::kBadArgument);
  }
  BlockRequest request = read_request(0, span.first(kBlockBytes));
  ASSERT_EQ(file->run({&request, 1}), Status::kOk);
  EXPECT_EQ(span[0], std::byte{0}) << "nothing of a refused batch is done";
  request = read_request(kBytes, span.first(0));
  EXPECT_EQ(file->run({&request, 1}), Status::kOk) << "nothing, at the end";
  EXPECT_EQ(file->run({}), Status::kOk);
}

}  // namespace
}  // namespace nearkv::test

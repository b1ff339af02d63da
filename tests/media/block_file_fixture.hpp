// Block files by both engines, and random batches for them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "faulty_engine.hpp"
#include "media/block_file.hpp"
#include "support/seed.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {

/// Bytes at a multiple of a block, or `offset` bytes beyond one.
class BlockMemory {
 public:
  BlockMemory(std::size_t bytes, std::size_t offset) : storage_(bytes + 2 * kBlockBytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    const std::size_t begin = (kBlockBytes - address % kBlockBytes) % kBlockBytes + offset;
    span_ = std::span(storage_).subspan(begin, bytes);
  }
  [[nodiscard]] std::span<std::byte> span() const { return span_; }

 private:
  std::vector<std::byte> storage_;
  std::span<std::byte> span_;
};

inline void fill(std::span<std::byte> bytes, Random& random) {
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
}

inline BlockRequest read_request(std::uint64_t offset_bytes, std::span<std::byte> memory) {
  return {BlockOperation::kRead, offset_bytes, memory, Status::kInternal, -1};
}
inline BlockRequest write_request(std::uint64_t offset_bytes, std::span<std::byte> memory) {
  return {BlockOperation::kWrite, offset_bytes, memory, Status::kInternal, -1};
}

/// Suites with this fixture run with io_uring and with threads.
class BlockFileTest : public testing::TestWithParam<BlockEngineKind> {
 protected:
  static constexpr std::uint64_t kBytes = std::uint64_t{2} << 20;

  BlockFileOptions options(const std::string& path, std::uint64_t bytes = kBytes) {
    BlockFileOptions chosen;
    chosen.path = path;
    chosen.bytes = bytes;
    chosen.depth = 8;
    chosen.engine = GetParam();
    chosen.wrap = [control = control_](std::unique_ptr<BlockEngine> engine) {
      return std::make_unique<FaultyEngine>(std::move(engine), control);
    };
    return chosen;
  }

  /// nullptr, with the test to be skipped, where this engine is not to be had.
  std::unique_ptr<BlockFile> open(const BlockFileOptions& chosen) {
    std::unique_ptr<BlockFile> file;
    std::string reason;
    const Status status = BlockFile::open(chosen, &file, &reason);
    if (status == Status::kUnsupported) return nullptr;
    EXPECT_EQ(status, Status::kOk) << reason;
    return file;
  }

  std::shared_ptr<FaultControl> control_ = std::make_shared<FaultControl>();
  TemporaryFile place_{"block_file"};
};

inline std::string engine_name(const testing::TestParamInfo<BlockEngineKind>& info) {
  return info.param == BlockEngineKind::kUring ? "IoUring" : "Threads";
}

#define OPEN_OR_SKIP(file, chosen) \
  const auto file = open(chosen);  \
  if (HasFailure()) return;        \
  if ((file) == nullptr) GTEST_SKIP() << "io_uring is not permitted here"

}  // namespace nearkv::test

#include "object/block_payload.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "object/extent_runs.hpp"
#include "round_up.hpp"

namespace nearkv {

static_assert(NKV_OBJECT_GRAIN_BYTES == kBlockBytes);

void BlockPayload::FreeMemory::operator()(std::byte* memory) const { std::free(memory); }

BlockPayload::Lane::~Lane() {
  if (file != nullptr && !file->close()) (void)staging.release();
}

Status BlockPayload::open(const BlockFileOptions& options, std::unique_ptr<BlockPayload>* payload,
                          std::string* reason) {
  std::unique_ptr<BlockPayload> opened(new BlockPayload(options));
  std::unique_ptr<Lane> lane;
  const Status status = opened->make_lane(&lane, reason);
  if (status != Status::kOk) return status;
  opened->give_back(std::move(lane));
  *payload = std::move(opened);
  return Status::kOk;
}

Status BlockPayload::make_lane(std::unique_ptr<Lane>* lane, std::string* reason) const {
  auto made = std::make_unique<Lane>();
  made->staging.reset(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, kStagingBytes)));
  if (made->staging == nullptr) return Status::kOutOfMemory;
  const Status status = BlockFile::open(options_, &made->file, reason);
  if (status == Status::kOk) *lane = std::move(made);
  return status;
}

Status BlockPayload::take_lane(std::unique_ptr<Lane>* lane) {
  {
    const std::scoped_lock lock(mutex_);
    if (!lanes_.empty()) {
      *lane = std::move(lanes_.back());
      lanes_.pop_back();
      return Status::kOk;
    }
  }
  std::string ignored;
  return make_lane(lane, &ignored);
}

void BlockPayload::give_back(std::unique_ptr<Lane> lane) {
  // One with transfers that outlasted their time is closed, which waits for them.
  if (lane->file->in_flight() != 0) return;
  const std::scoped_lock lock(mutex_);
  lanes_.push_back(std::move(lane));
}

Status BlockPayload::transfer(Lane* lane, BlockOperation operation, std::span<const Extent> extents,
                              std::uint64_t offset, std::uint64_t bytes) const {
  std::vector<BlockRequest> requests;
  std::byte* memory = lane->staging.get();
  const Status status =
      for_each_run(extents, offset, bytes, [&](std::uint64_t address, std::uint64_t run) {
        requests.push_back({operation, address, {memory, run}});
        memory += run;
        return Status::kOk;
      });
  return status == Status::kOk ? lane->file->run(requests) : status;
}

Status BlockPayload::write(std::span<const Extent> extents, std::uint64_t offset,
                           std::span<const PayloadPiece> pieces) {
  if (offset % kBlockBytes != 0) return Status::kUnsupported;
  std::unique_ptr<Lane> lane;
  Status status = take_lane(&lane);
  if (status != Status::kOk) return status;
  const std::span<std::byte> staging(lane->staging.get(), kStagingBytes);
  std::size_t staged = 0;
  const auto flush = [&] {
    const std::size_t blocks = round_up(staged, kBlockBytes);
    std::memset(staging.data() + staged, 0, blocks - staged);
    copy_fence();
    status = transfer(lane.get(), BlockOperation::kWrite, extents, offset, blocks);
    offset += blocks;
    staged = 0;
  };
  for (const PayloadPiece& piece : pieces) {
    for (std::uint64_t left = piece.bytes; left > 0 && status == Status::kOk;) {
      const std::size_t run = std::min<std::uint64_t>(left, kStagingBytes - staged);
      *piece.crc = piece.source->give(staging.subspan(staged, run), *piece.crc);
      staged += run;
      left -= run;
      if (staged == kStagingBytes) flush();
    }
  }
  if (staged != 0 && status == Status::kOk) flush();
  give_back(std::move(lane));
  return status;
}

Status BlockPayload::wipe(std::span<const Extent> extents) {
  std::unique_ptr<Lane> lane;
  Status status = take_lane(&lane);
  if (status != Status::kOk) return status;
  std::memset(lane->staging.get(), 0, kStagingBytes);
  const std::uint64_t end = bytes_of(extents);
  for (std::uint64_t at = 0; at < end && status == Status::kOk; at += kStagingBytes) {
    status = transfer(lane.get(), BlockOperation::kWrite, extents, at,
                      std::min<std::uint64_t>(kStagingBytes, end - at));
  }
  give_back(std::move(lane));
  return status;
}

Status BlockPayload::read(std::span<const Extent> extents, std::uint64_t offset,
                          std::uint64_t bytes, ByteSink* sink, std::uint32_t* crc) {
  std::unique_ptr<Lane> lane;
  Status status = take_lane(&lane);
  if (status != Status::kOk) return status;
  const std::span<const std::byte> staging(lane->staging.get(), kStagingBytes);
  while (bytes > 0) {
    const std::uint64_t before = offset % kBlockBytes;
    const std::uint64_t run = std::min<std::uint64_t>(bytes, kStagingBytes - before);
    status = transfer(lane.get(), BlockOperation::kRead, extents, offset - before,
                      round_up(before + run, kBlockBytes));
    if (status != Status::kOk) break;
    *crc = sink->take(staging.subspan(before, run), *crc);
    offset += run;
    bytes -= run;
  }
  give_back(std::move(lane));
  return status == Status::kIoError ? Status::kPoison : status;
}

}  // namespace nearkv

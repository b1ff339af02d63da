#include "object/memory_payload.hpp"

#include "media/guarded.hpp"
#include "media/wipe.hpp"
#include "object/extent_runs.hpp"

namespace nearkv {

Status MemoryPayload::write(std::span<const Extent> extents, std::uint64_t offset,
                            std::span<const PayloadPiece> pieces) {
  for (const PayloadPiece& piece : pieces) {
    const auto copy = [&](std::uint64_t address, std::uint64_t run) {
      const std::span<std::byte> place = memory_.subspan(address, run);
      std::uintptr_t fault = 0;
      const Status status =
          guarded(memory_, [&] { *piece.crc = piece.source->give(place, *piece.crc); }, &fault);
      if constexpr (kCopyInReachesMemory) {
        persistence_->streamed(place);
      } else {
        persistence_->write_back(place);
      }
      return status;
    };
    const Status status = for_each_run(extents, offset, piece.bytes, copy);
    if (status != Status::kOk) return status;
    offset += piece.bytes;
  }
  return Status::kOk;
}

Status MemoryPayload::wipe(std::span<const Extent> extents) {
  return for_each_run(extents, 0, bytes_of(extents), [&](std::uint64_t address, std::uint64_t run) {
    const std::span<std::byte> place = memory_.subspan(address, run);
    std::uintptr_t fault = 0;
    const Status status = guarded(memory_, [&] { nearkv::wipe(place); }, &fault);
    persistence_->streamed(place);
    return status;
  });
}

Status MemoryPayload::read(std::span<const Extent> extents, std::uint64_t offset,
                           std::uint64_t bytes, ByteSink* sink, std::uint32_t* crc) {
  return for_each_run(extents, offset, bytes, [&](std::uint64_t address, std::uint64_t run) {
    const std::span<const std::byte> place = memory_.subspan(address, run);
    std::uintptr_t fault = 0;
    return guarded(memory_, [&] { *crc = sink->take(place, *crc); }, &fault);
  });
}

}  // namespace nearkv

#include "object/payload.hpp"

#include <algorithm>

#include "media/checked_copy.hpp"
#include "media/guarded.hpp"
#include "nkv_abi.h"

namespace nearkv {
namespace {

/// Calls visit(address, bytes) for the runs of memory that bytes [offset, offset + bytes) of the
/// extents lie in, until one is not kOk. kBadArgument if the extents end before that.
template <typename Visit>
Status for_each_run(std::span<const Extent> extents, std::uint64_t offset, std::uint64_t bytes,
                    Visit visit) {
  for (const Extent& extent : extents) {
    if (bytes == 0) break;
    const std::uint64_t size = std::uint64_t{extent.grains} * NKV_OBJECT_GRAIN_BYTES;
    if (offset >= size) {
      offset -= size;
      continue;
    }
    const std::uint64_t run = std::min(bytes, size - offset);
    const std::uint64_t address =
        std::uint64_t{extent.first_grain} * NKV_OBJECT_GRAIN_BYTES + offset;
    if (const Status status = visit(address, run); status != Status::kOk) return status;
    bytes -= run;
    offset = 0;
  }
  return bytes == 0 ? Status::kOk : Status::kBadArgument;
}

}  // namespace

Status MemoryPayload::write(std::span<const Extent> extents, std::uint64_t offset,
                            std::uint64_t bytes, SourceCursor* source, std::uint32_t* crc) {
  return for_each_run(extents, offset, bytes, [&](std::uint64_t address, std::uint64_t run) {
    const std::span<std::byte> place = memory_.subspan(address, run);
    std::uintptr_t fault = 0;
    const Status status = guarded(memory_, [&] { *crc = gather_in(place, source, *crc); }, &fault);
    if constexpr (kCopyInReachesMemory) {
      persistence_->streamed(place);
    } else {
      persistence_->write_back(place);
    }
    return status;
  });
}

Status MemoryPayload::read(std::span<const Extent> extents, std::uint64_t offset,
                           std::uint64_t bytes, TargetCursor* target, std::uint32_t* crc) {
  return for_each_run(extents, offset, bytes, [&](std::uint64_t address, std::uint64_t run) {
    const std::span<const std::byte> place = memory_.subspan(address, run);
    std::uintptr_t fault = 0;
    return guarded(memory_, [&] { *crc = scatter_out(target, place, *crc); }, &fault);
  });
}

}  // namespace nearkv

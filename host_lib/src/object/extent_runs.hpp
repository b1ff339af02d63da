// Extents as runs of bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "nearkv/status.hpp"
#include "nkv_abi.h"
#include "object/extent_allocator.hpp"

namespace nearkv {

/// Bytes of room in all of the extents.
[[nodiscard]] inline std::uint64_t bytes_of(std::span<const Extent> extents) {
  std::uint64_t grains = 0;
  for (const Extent& extent : extents) grains += extent.grains;
  return grains * NKV_OBJECT_GRAIN_BYTES;
}

/// Calls visit(address, bytes) for the runs that bytes [offset, offset + bytes) of the extents lie
/// in, until one is not kOk. Addresses count from the start of the pool. kBadArgument if the
/// extents end before that.
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

}  // namespace nearkv

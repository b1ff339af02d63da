#include "object/extent_list.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "media/guarded.hpp"
#include "page/checksum.hpp"

namespace nearkv {
namespace {

/// A grain full of extents, closed by a checksum.
using ListGrain = std::array<std::byte, NKV_OBJECT_GRAIN_BYTES>;

std::uint32_t checksum(const ListGrain& list) {
  return crc32c(std::span(list).first(NKV_EXTENT_LIST_CRC_AT));
}

bool in_data_area(const nkv_pool_header& header, const Extent& extent) {
  const std::uint64_t first = header.data_at / NKV_OBJECT_GRAIN_BYTES;
  const std::uint64_t grains =
      std::uint64_t{header.slabs} * header.slab_bytes / NKV_OBJECT_GRAIN_BYTES;
  return extent.grains != 0 && extent.first_grain >= first &&
         extent.first_grain - first + std::uint64_t{extent.grains} <= grains;
}

}  // namespace

Status read_extents(const PoolMemory& pool, const nkv_object_record& record,
                    std::vector<Extent>* extents) {
  extents->clear();
  if (record.extents > NKV_MAX_OBJECT_EXTENTS) return Status::kCorrupt;
  if (record.extents <= NKV_RECORD_EXTENTS) {
    for (std::size_t i = 0; i < record.extents; ++i) {
      extents->push_back({record.extent_first[i], record.extent_grains[i]});
    }
  } else {
    const Extent place{record.extent_first[0], 1};
    if (record.extent_grains[0] != 1 || !in_data_area(pool.header(), place)) {
      return Status::kCorrupt;
    }
    ListGrain list;
    const std::span<const std::byte> grain = pool.bytes().subspan(
        std::uint64_t{place.first_grain} * NKV_OBJECT_GRAIN_BYTES, list.size());
    std::uintptr_t fault = 0;
    const Status status =
        guarded(grain, [&] { std::memcpy(list.data(), grain.data(), list.size()); }, &fault);
    if (status != Status::kOk) return status;
    std::uint32_t crc = 0;
    std::memcpy(&crc, list.data() + NKV_EXTENT_LIST_CRC_AT, sizeof(crc));
    if (crc != checksum(list)) return Status::kCorrupt;
    for (std::size_t i = 0; i < record.extents; ++i) {
      nkv_object_extent extent{};
      std::memcpy(&extent, list.data() + i * sizeof(extent), sizeof(extent));
      extents->push_back({extent.first_grain, extent.grains});
    }
    extents->push_back(place);
  }
  std::uint64_t grains = 0;
  for (const Extent& extent : *extents) {
    if (!in_data_area(pool.header(), extent)) return Status::kCorrupt;
    grains += extent.grains;
  }
  if (record.extents > NKV_RECORD_EXTENTS) --grains;
  return grains == record.grains ? Status::kOk : Status::kCorrupt;
}

void write_extents(PoolMemory* pool, const std::vector<Extent>& extents, bool has_list,
                   nkv_object_record* record) {
  if (!has_list) {
    record->extents = static_cast<std::uint16_t>(extents.size());
    for (std::size_t i = 0; i < extents.size(); ++i) {
      record->extent_first[i] = extents[i].first_grain;
      record->extent_grains[i] = extents[i].grains;
    }
    return;
  }
  record->extents = static_cast<std::uint16_t>(extents.size() - 1);
  record->extent_first[0] = extents.back().first_grain;
  record->extent_grains[0] = 1;
  ListGrain list{};
  for (std::size_t i = 0; i + 1 < extents.size(); ++i) {
    const nkv_object_extent extent{extents[i].first_grain, extents[i].grains};
    std::memcpy(list.data() + i * sizeof(extent), &extent, sizeof(extent));
  }
  const std::uint32_t crc = checksum(list);
  std::memcpy(list.data() + NKV_EXTENT_LIST_CRC_AT, &crc, sizeof(crc));
  const std::span<std::byte> grain = pool->bytes().subspan(
      std::uint64_t{extents.back().first_grain} * NKV_OBJECT_GRAIN_BYTES, list.size());
  std::ranges::copy(list, grain.begin());
  pool->persistence().write_back(grain);
}

}  // namespace nearkv

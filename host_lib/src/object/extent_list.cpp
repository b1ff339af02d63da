#include "object/extent_list.hpp"

#include <algorithm>
#include <array>
#include <cstring>

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

/// Reads a list of record.extents extents from its grain, and adds that grain.
Status read_list(Payload* payload, const nkv_object_record& record, const Extent& place,
                 std::vector<Extent>* extents) {
  ListGrain list;
  std::span<std::byte> space(list);
  TargetCursor target(std::span(&space, 1));
  SegmentSink sink(&target);
  std::uint32_t ignored = 0;
  const Status status = payload->read(std::span(&place, 1), 0, list.size(), &sink, &ignored);
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
  return Status::kOk;
}

}  // namespace

Status read_extents(const nkv_pool_header& pool, Payload* payload, const nkv_object_record& record,
                    std::vector<Extent>* extents) {
  extents->clear();
  if (record.extents > NKV_MAX_OBJECT_EXTENTS) return Status::kCorrupt;
  const bool has_list = record.extents > NKV_RECORD_EXTENTS;
  if (has_list) {
    const Extent place{record.extent_first[0], record.extent_grains[0]};
    if (place.grains != 1 || !in_data_area(pool, place)) return Status::kCorrupt;
    const Status status = read_list(payload, record, place, extents);
    if (status != Status::kOk) return status;
  }
  for (std::size_t i = 0; i < record.extents && !has_list; ++i) {
    extents->push_back({record.extent_first[i], record.extent_grains[i]});
  }
  std::uint64_t grains = 0;
  for (const Extent& extent : *extents) {
    if (!in_data_area(pool, extent)) return Status::kCorrupt;
    grains += extent.grains;
  }
  return grains - (has_list ? 1 : 0) == record.grains ? Status::kOk : Status::kCorrupt;
}

Status write_extents(Payload* payload, const std::vector<Extent>& extents, bool has_list,
                     nkv_object_record* record) {
  if (!has_list) {
    record->extents = static_cast<std::uint16_t>(extents.size());
    for (std::size_t i = 0; i < extents.size(); ++i) {
      record->extent_first[i] = extents[i].first_grain;
      record->extent_grains[i] = extents[i].grains;
    }
    return Status::kOk;
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
  const std::span<const std::byte> data(list);
  SourceCursor cursor(std::span(&data, 1));
  SegmentSource source(&cursor);
  std::uint32_t ignored = 0;
  const PayloadPiece piece{data.size(), &source, &ignored};
  return payload->write(std::span(&extents.back(), 1), 0, std::span(&piece, 1));
}

}  // namespace nearkv

// One burst of the shared region: written whole by its one writer, or not there.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "nkv_abi.h"
#include "page/checksum.hpp"
#include "share/shared_memory.hpp"

namespace nearkv {

template <typename Record>
[[nodiscard]] std::uint32_t record_crc(const Record& record) {
  static_assert(sizeof(Record) == NKV_BURST_BYTES);
  return crc32c(std::as_bytes(std::span(&record, 1)).first(offsetof(Record, crc)));
}

/// Seals the record and begins to write it back. It is in memory once a fence has returned.
template <typename Record>
void write_record(SharedMemory& memory, std::uint64_t at, Record record) {
  record.crc = record_crc(record);
  memory.copy_in(at, std::as_bytes(std::span(&record, 1)));
  memory.flush(at, sizeof(record));
}

/// Reads what memory holds or has held; a later look, after a fence, is newer than this one. For
/// what only grows and is looked at again. False: nothing whole, `record` is not to be used.
template <typename Record>
[[nodiscard]] bool peek_record(SharedMemory& memory, std::uint64_t at, Record* record) {
  memory.invalidate(at, sizeof(*record));
  memory.copy_out(at, std::as_writable_bytes(std::span(record, 1)));
  return record->crc == record_crc(*record);
}

/// Reads what memory holds now or a moment later.
template <typename Record>
[[nodiscard]] bool read_record(SharedMemory& memory, std::uint64_t at, Record* record) {
  memory.invalidate(at, sizeof(*record));
  memory.fence();
  memory.copy_out(at, std::as_writable_bytes(std::span(record, 1)));
  return record->crc == record_crc(*record);
}

}  // namespace nearkv

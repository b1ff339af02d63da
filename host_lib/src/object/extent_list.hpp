// The extents of an object, as its record names them.
#pragma once

#include <cstdint>
#include <vector>

#include "nearkv/status.hpp"
#include "object/extent_allocator.hpp"
#include "pool/pool_memory.hpp"

namespace nearkv {

/// Reads the extents that a whole record names, the list's own grain last if there is one.
/// kCorrupt, whatever a forger may have written there: all of them lie in the data area and hold
/// `record.grains`, the list's own not counted.
Status read_extents(const PoolMemory& pool, const nkv_object_record& record,
                    std::vector<Extent>* extents);

/// Names `extents` in a record. More than NKV_RECORD_EXTENTS are written to the grain of the last,
/// which holds nothing else. Durable at the next fence.
void write_extents(PoolMemory* pool, const std::vector<Extent>& extents, bool has_list,
                   nkv_object_record* record);

}  // namespace nearkv

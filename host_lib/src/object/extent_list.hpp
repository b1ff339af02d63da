// The extents of an object, as its record names them.
#pragma once

#include <cstdint>
#include <vector>

#include "nearkv/status.hpp"
#include "nkv_abi.h"
#include "object/payload.hpp"

namespace nearkv {

/// Reads the extents that a whole record names, the list's own grain last if there is one.
/// kCorrupt, whatever a forger may have written there: all of them lie in the data area and hold
/// `record.grains`, the list's own not counted. kPoison.
Status read_extents(const nkv_pool_header& pool, Payload* payload, const nkv_object_record& record,
                    std::vector<Extent>* extents);

/// Names `extents` in a record. If it `has_list`, the last extent is one grain that all others are
/// written to, because there are more than NKV_RECORD_EXTENTS. Durable at the next fence.
Status write_extents(Payload* payload, const std::vector<Extent>& extents, bool has_list,
                     nkv_object_record* record);

}  // namespace nearkv

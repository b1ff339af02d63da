// Which bytes of an object are which parts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "nkv_abi.h"

namespace nearkv {

struct PartRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Bytes of parts [first, first + count). All parts are equal but the last, which is what is left.
[[nodiscard]] inline PartRange part_range(const nkv_object_record& record, std::uint32_t first,
                                          std::uint32_t count) {
  const std::uint64_t parts = std::max<std::uint64_t>(record.parts, 1);
  const std::uint64_t part_bytes = (record.bytes + parts - 1) / parts;
  const std::uint64_t begin = std::min<std::uint64_t>(first * part_bytes, record.bytes);
  const std::uint64_t end =
      std::min<std::uint64_t>((std::uint64_t{first} + count) * part_bytes, record.bytes);
  return {begin, end - begin};
}

}  // namespace nearkv

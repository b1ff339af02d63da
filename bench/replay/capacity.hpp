// Capacities as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nearkv::replay {

/// "500" is blocks, "2.5%" a share of the trace's unique blocks (rounded down), "64GiB" bytes.
/// False with a `reason` for what is none of these, or less than one block.
[[nodiscard]] bool parse_capacity(std::string_view text, std::uint64_t unique_blocks,
                                  std::uint32_t block_bytes, std::uint64_t* blocks,
                                  std::string* reason);

}  // namespace nearkv::replay

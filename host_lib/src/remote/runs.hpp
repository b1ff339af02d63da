// Which bytes of the data area a job is about.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nkv_abi.h"

namespace nearkv {

/// Bytes of the data area.
struct Run {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Appends to a list, joined with its last run if the two touch.
void append_run(std::vector<Run>* runs, const Run& run);

/// The runs of each item of a job, in their order; nothing unless all of them lie within the
/// request and `data_bytes`.
std::optional<std::vector<std::vector<Run>>> runs_of_items(std::span<const std::byte> request,
                                                           std::uint32_t items,
                                                           std::uint64_t data_bytes);

}  // namespace nearkv

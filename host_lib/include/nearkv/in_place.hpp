// Pages that are the engine's own memory: where both share one, and on plain CPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nearkv/api.h"
#include "nearkv/device.hpp"
#include "nearkv/pool.hpp"
#include "nearkv/status.hpp"

namespace nearkv {

/// Where the memory that a device uses begins and ends: at multiples of so many bytes.
inline constexpr std::size_t kLentMemoryAlignment = 4096;

/// The device `cpu:` in memory of the caller, who sees the same bytes: nothing is mapped or copied.
/// Of `memory` it uses what lies between multiples of kLentMemoryAlignment; nobody else may write
/// there while the device lives. `owner` is let go of with the device, whichever thread ends it.
///
///   cpu:[?option&...]   threads=N, node=N, verify=SECONDS|always: as open_device() has them
///
/// kBadUri for another scheme, a path or other options; kBadArgument for memory without a whole
/// aligned piece. `reason`, if given, receives a line that says what to do.
NEARKV_API Status open_device_in(std::span<std::byte> memory, std::shared_ptr<void> owner,
                                 std::string_view uri, std::unique_ptr<Device>* device,
                                 std::string* reason = nullptr);

/// Rows of a page's 64 tokens, one after the other, in the pool's dtype.
struct RowsOfPage {
  std::span<const std::byte> keys;    ///< [64][head_dim].
  std::span<const std::byte> values;  ///< [64][value_dim]; empty if v_form is NONE.
};

/// Where the rows of one (layer, KV head) lie in the device's memory, page after page: no row is
/// copied. Checksums are verified now, and not when the rows are read.
///
/// Spans are good until the page is freed (drop() of the last sequence that shares it: a fork keeps
/// it), rewritten (transcode()), or the pool is gone. Thread safety: as Pool.
///
/// kUnsupported: rows lie there as they came only with k_form and v_form RAW (or NONE). kNotFound,
/// kColdPage, kBadPage, kCorrupt; Pool::last_error() says more.
NEARKV_API Status rows_in_place(Pool& pool, std::uint64_t sequence, std::uint16_t layer,
                                std::uint16_t kv_head, std::vector<RowsOfPage>* pages);

}  // namespace nearkv

// Rows and planes of a page, asked for ahead.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codes/code_state.hpp"
#include "codes/coded_page.hpp"
#include "nkv_abi.h"
#include "page/row_source.hpp"

namespace nearkv {

/// Asks for the rows of some tokens.
inline void fetch_rows(const RowSource& rows, std::uint64_t tokens) {
  for_each_bit(tokens, [&](std::size_t token) {
    for (std::size_t offset = 0; offset < rows.row_bytes; offset += NKV_BURST_BYTES) {
      __builtin_prefetch(rows.row(token) + offset, 0, 3);
    }
  });
}

/// Asks for a granule of planes from `first` to `end`.
inline void fetch_granule(const CodedTensor& tensor, const Granules& granules, std::size_t number,
                          std::size_t first, std::size_t end) {
  const std::size_t bytes = granules.bursts * NKV_BURST_BYTES;
  for (std::size_t plane = first; plane < end; ++plane) {
    const std::uint8_t* const start = tensor.planes[plane] + number * bytes;
    for (std::size_t offset = 0; offset < bytes; offset += NKV_BURST_BYTES) {
      __builtin_prefetch(start + offset, 0, 3);
    }
  }
}

}  // namespace nearkv

// The exact rows of one tensor of one page, in whichever form they are stored.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nkv_abi.h"

namespace nearkv {

/// Views into page memory; valid while the page is.
struct RowSource {
  std::uint8_t form = NKV_ROW_FORM_RAW;
  std::uint8_t dtype = NKV_DTYPE_BF16;
  std::size_t dim = 0;
  std::size_t row_bytes = 0;
  const std::uint8_t* rows = nullptr;
  const std::uint8_t* exponents = nullptr;  ///< DELTA4 only.

  [[nodiscard]] bool is_delta4() const { return form == NKV_ROW_FORM_DELTA4; }
  [[nodiscard]] const std::uint8_t* row(std::size_t token) const {
    return rows + token * row_bytes;
  }

  /// Row `token` as binary32 in channel order, as the arithmetic takes it: exceptions, subnormals
  /// and elements that are not finite are zero. Returns whether all were finite.
  bool decode(std::size_t token, float* out) const;
};

}  // namespace nearkv

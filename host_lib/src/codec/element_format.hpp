// Where sign, exponent and mantissa lie in an element.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nearkv/codec.hpp"

namespace nearkv::codec {

/// Fields from the top bit down: sign, exponent, mantissa.
struct ElementFormat {
  std::size_t bytes = 0;
  unsigned sign_bits = 0;
  unsigned exponent_bits = 0;
  unsigned mantissa_bits = 0;
  bool special_top_exponent = false;  ///< All ones means infinity or NaN throughout.

  [[nodiscard]] constexpr unsigned bits() const {
    return sign_bits + exponent_bits + mantissa_bits;
  }
  [[nodiscard]] constexpr std::uint16_t top_exponent() const {
    return static_cast<std::uint16_t>((1U << exponent_bits) - 1);
  }
};

/// `bytes` is 0 for a value that names no row dtype. An int8 has no exponent; its upper half, which
/// is what compresses, takes that place.
[[nodiscard]] constexpr ElementFormat element_format(RowDtype dtype) {
  switch (dtype) {
    case RowDtype::kBf16:
      return {2, 1, 8, 7, true};
    case RowDtype::kFp16:
      return {2, 1, 5, 10, true};
    case RowDtype::kFp8E4m3:
      return {1, 1, 4, 3, false};
    case RowDtype::kFp8E5m2:
      return {1, 1, 5, 2, true};
    case RowDtype::kInt8:
      return {1, 0, 4, 4, false};
  }
  return {};
}

}  // namespace nearkv::codec

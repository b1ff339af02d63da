// Codes of a page's rows of one tensor, as the page's arrays hold them (section 11 of
// ARITHMETIC.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codes/code_form.hpp"
#include "nkv_abi.h"

namespace nearkv {

/// 64 rows of one tensor, in binary32, those that are not finite or subnormal already zero.
struct CodedRows {
  const float* first;
  std::size_t stride;                  ///< Numbers from one row to the next.
  std::size_t dim;                     ///< A multiple of 16.
  std::span<const float> magnitude;    ///< Per channel the largest magnitude.
  std::span<const std::int8_t> gains;  ///< Per channel, or nothing: all zero.
};

/// Where the codes go: 32 bytes of factors, `dim` means, planes of [PAGE_TOKENS][dim / 8] bytes.
struct CodePlaces {
  std::uint8_t* factors;
  std::int8_t* mean;
  std::array<std::uint8_t*, 4> planes;
};

/// What a page's header says of a tensor's codes.
struct CodeScales {
  std::int16_t mean_power;
  std::int16_t top;
};

/// Codes rows under a sign set. `form` says how many planes.
CodeScales encode_codes(const CodedRows& rows, unsigned sign_set, const CodeForm& form,
                        const CodePlaces& places);

}  // namespace nearkv

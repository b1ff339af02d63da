// Row form DELTA4 (section 2.2): bf16 in 12 bits, with exceptions.
#ifndef NEARKV_MODEL_DELTA4_HPP_
#define NEARKV_MODEL_DELTA4_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nkv_abi.h"

namespace nearkv::model {

/// A page's tensor in DELTA4: PAGE_TOKENS rows of `dim` channels.
struct Delta4 {
  std::vector<uint8_t> exponents;  ///< x per channel.
  std::vector<std::byte> rows;
  std::array<nkv_row_exception, NKV_EXCEPTIONS> exceptions{};
  uint8_t exception_count = 0;
};

/// Encodes bf16 patterns [PAGE_TOKENS][dim]; nothing if they have more than EXCEPTIONS exceptions.
std::optional<Delta4> encode_delta4(std::span<const uint16_t> patterns, uint32_t dim);

/// One element of a DELTA4 row as a bf16 pattern, exceptions left out: nibble 0 is a zero.
uint16_t decode_delta4(std::span<const std::byte> row, uint32_t dim, uint32_t channel,
                       uint8_t exponent);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_DELTA4_HPP_

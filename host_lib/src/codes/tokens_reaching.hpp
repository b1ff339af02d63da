// Which of a page's tokens reach a bound that depends on their factor.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "codes/variance_tables.hpp"
#include "nkv_abi.h"

namespace nearkv {

/// Bit t: scores[t], which are above -2^15, is at least least[factor of t]. `factors` are four bits
/// a token, of PAGE_TOKENS.
[[nodiscard]] std::uint64_t tokens_reaching(std::span<const std::int16_t, NKV_PAGE_TOKENS> scores,
                                            const std::uint8_t* factors,
                                            std::span<const std::int64_t, kFactors> least);

}  // namespace nearkv

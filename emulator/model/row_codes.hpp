// Codes of a page's rows of one tensor (sections 11.3 to 11.6).
#ifndef NEARKV_MODEL_ROW_CODES_HPP_
#define NEARKV_MODEL_ROW_CODES_HPP_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "code_tables.hpp"
#include "nkv_abi.h"
#include "number.hpp"

namespace nearkv::model {

inline constexpr int kTopFactor = 15;

struct RowCodes {
  int16_t mean_power = 0;                            ///< k_mean_power, v_mean_power.
  int16_t top = 0;                                   ///< k_top, v_top, in 1/16 octaves.
  std::vector<int8_t> mean;                          ///< Per channel.
  std::array<uint8_t, NKV_PAGE_TOKENS> factor = {};  ///< 0..15; 0: no residual.
  std::vector<uint8_t> cell;                         ///< 0..2^B − 1, [PAGE_TOKENS][channels].
};

/// Codes of rows [PAGE_TOKENS][channels]. Elements that are not finite count as zero. `gains` holds
/// a gain for each channel, or nothing where all are zero; `set` is a sign set.
RowCodes encode_rows(std::span<const Number> rows, std::span<const int8_t> gains, int set,
                     const CodeForm& form);

/// The number that the first `planes` bits of a cell stand for: a sum of ±2^(B − 1 − j), plane j.
constexpr int code_value(int cell, int planes, const CodeForm& form) {
  const int dropped = form.planes - planes;
  return 2 * (cell >> dropped << dropped) - (1 << form.planes) + (1 << dropped);
}

/// log2 of a row's factor, in sixteenths of octaves; nothing if it has no residual.
constexpr std::optional<int> factor_sixteenths(int top, uint8_t factor, const CodeForm& form) {
  if (factor == 0) return std::nullopt;
  return top - (kTopFactor - factor) * form.factor_step;
}

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_ROW_CODES_HPP_

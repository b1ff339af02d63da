// The inner loops of coding a page's rows. Section numbers refer to emulator/model/ARITHMETIC.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "codes/code_form.hpp"
#include "nkv_abi.h"

namespace nearkv {

/// Channels of a row of 16-bit numbers: as many as a kernel reads at a time, those behind the row's
/// own zero.
inline constexpr std::size_t kCodeLanes = 32;
inline constexpr std::size_t kMaxCodeChannels =
    (NKV_MAX_HEAD_DIM + kCodeLanes - 1) / kCodeLanes * kCodeLanes;

/// Channels with those behind them.
[[nodiscard]] constexpr std::size_t padded_channels(std::size_t channels) {
  return (channels + kCodeLanes - 1) / kCodeLanes * kCodeLanes;
}

/// Rows [PAGE_TOKENS][dim], `stride` numbers apart, times first and times second[c], truncated:
/// [PAGE_TOKENS][padded_channels(dim)]. sum[c] is over the tokens. dim is a multiple of 16.
void fix_rows(const float* rows, std::size_t stride, std::size_t dim, float first,
              const float* second, std::int16_t* fixed, std::int32_t* sum);

/// What a row's factor is made of (11.6).
struct RowFit {
  int shift;              ///< n.
  std::uint32_t energy;   ///< E.
  std::uint32_t product;  ///< P; 0: no residual.
};

/// What all rows of a tensor have in common.
struct RowCoding {
  std::size_t dim;
  const CodeForm* form;
  const std::int16_t* minus;  ///< minus_signs, zero behind dim.
  const std::int16_t* mean;   ///< mean * 2^p, [padded_channels(dim)].
};

/// Codes rows as fix_rows gives them (11.5): plane j's bits to planes[j], [PAGE_TOKENS][dim / 8].
void code_rows(const std::int16_t* fixed, const RowCoding& coding, std::uint8_t* const planes[4],
               std::array<RowFit, NKV_PAGE_TOKENS>* fits);

}  // namespace nearkv

// What the portable kernels of pages share, and their parts of the table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "codes/page_kernels.hpp"

namespace nearkv::portable {

inline constexpr std::size_t kTokens = NKV_PAGE_TOKENS;

inline bool has(std::uint64_t tokens, std::size_t token) { return (tokens >> token & 1) != 0; }

inline std::int16_t saturate(std::int32_t value) {
  return static_cast<std::int16_t>(std::clamp<std::int32_t>(
      value, std::numeric_limits<std::int16_t>::min(), std::numeric_limits<std::int16_t>::max()));
}

inline void unpack_factors(const std::uint8_t* packed, std::uint8_t* factors) {
  for (std::size_t pair = 0; pair < kTokens / 2; ++pair) {
    factors[2 * pair] = packed[pair] & 15;
    factors[2 * pair + 1] = packed[pair] >> 4;
  }
}

inline unsigned factor_of(const std::uint8_t* factors, std::size_t token) {
  return factors[token / 2] >> (token % 2 * 4) & 15U;
}

/// Planes of K that a token was scored by, of which more than one say nothing without a factor.
inline std::size_t planes_of(const std::uint64_t* refined, unsigned factor, std::size_t token) {
  if (factor == 0) return 1;
  std::size_t planes = NKV_KEY_CODE_PLANES;
  while (planes > 1 && !has(refined[planes], token)) --planes;
  return planes;
}

/// Whether a plane has a bit of a token set.
inline bool is_set(const PlaneRows& rows, int plane, std::size_t token, std::size_t channel) {
  return (rows.planes[plane][token * (rows.dim / 8) + channel / 8] >> (channel % 8) & 1) != 0;
}

/// Calls use(token, planes) for the tokens of which at least two planes are read.
template <typename Use>
void for_each_refined(const PlaneRows& rows, int most, const Use& use) {
  for (int planes = 2; planes <= most; ++planes) {
    for (std::size_t t = 0; t < kTokens; ++t) {
      if (has(rows.tokens[planes], t)) use(t, planes);
    }
  }
}

void set_score_kernels(PageKernels* kernels);
void set_weight_kernels(PageKernels* kernels);
void set_error_kernels(PageKernels* kernels);
void set_refine_kernels(PageKernels* kernels);
void set_sum_kernels(PageKernels* kernels);
void set_total_kernels(PageKernels* kernels);

}  // namespace nearkv::portable

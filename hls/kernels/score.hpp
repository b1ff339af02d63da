// The exact scores of listed pages.
#ifndef NEARKV_HLS_SCORE_HPP_
#define NEARKV_HLS_SCORE_HPP_

#include "kernels/rows.hpp"
#include "kernels/types.hpp"

/// S of every token of the listed pages (ARITHMETIC.md 1.5).
///
/// `memory` holds the pages, bf16, RAW or DELTA4 by `keys`; `pages` the burst at which each begins;
/// `exponents_at` and `rows_at` its K_EXPONENTS and K_ROWS. `query` is `group` rows of binary32,
/// finite. `key_exponent` is the list's Ek. `scores` takes a burst per token: 8 rows in 64 bits
/// each, those from `group` on zero. Bursts for it: 64 · page_count.
extern "C" void nearkv_score(const nearkv::kernels::Burst* memory, const std::uint32_t* pages,
                             int page_count, nearkv::kernels::ArrayPlace exponents_at,
                             nearkv::kernels::ArrayPlace rows_at, nearkv::kernels::RowShape keys,
                             const nearkv::kernels::Burst* query, int group, int key_exponent,
                             nearkv::kernels::Burst* scores);

#endif  // NEARKV_HLS_SCORE_HPP_

// What a page's digest says of its tokens' scores: how far from their midpoints these may lie.
#ifndef NEARKV_HLS_DIGEST_BOUND_HPP_
#define NEARKV_HLS_DIGEST_BOUND_HPP_

#include "kernels/types.hpp"

namespace nearkv::kernels {

/// Places of what `nearkv_digest_bound` says of a page and row, 64 bits each, in weight units.
enum BoundField { kConstant, kWeightSum, kSquares, kRemainder, kRadius };

}  // namespace nearkv::kernels

/// For each listed page and row a burst of BoundFields (ARITHMETIC.md section 5): K, W, Σw², the
/// remainder, and the radius after `planes` planes, with z of 1 to 255 `sixteenths`.
///
/// `steps` holds the pages' k_step_exponent; `query` is `group` rows of binary32, finite. Bursts
/// for `bounds`: 8 · page_count, rows from `group` on being those of a zero query.
extern "C" void nearkv_digest_bound(const nearkv::kernels::Burst* memory,
                                    const std::uint32_t* pages, const std::int16_t* steps,
                                    int page_count, nearkv::kernels::ArrayPlace digest_at,
                                    const nearkv::kernels::Burst* query, int group, int channels,
                                    int key_exponent, int planes, int sixteenths,
                                    nearkv::kernels::Burst* bounds);

#endif  // NEARKV_HLS_DIGEST_BOUND_HPP_

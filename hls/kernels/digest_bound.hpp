// What a page's digest allows: the largest score of its tokens, before a plane of it is read.
#ifndef NEARKV_HLS_DIGEST_BOUND_HPP_
#define NEARKV_HLS_DIGEST_BOUND_HPP_

#include "kernels/types.hpp"

namespace nearkv::kernels {

/// Places of what `nearkv_digest_bound` says of a page and row, 64 bits each, in weight units.
enum BoundField { kConstant, kWeightSum, kSquares, kRemainder, kCeiling, kRadius };

}  // namespace nearkv::kernels

/// For each listed page and row a burst of BoundFields (ARITHMETIC.md section 5): K, W, Σw², the
/// remainder, the ceiling K + 2^7·W, and the radius after `planes` planes: certified, or with
/// `sixteenths` not 0 (at most 255) the statistical one.
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

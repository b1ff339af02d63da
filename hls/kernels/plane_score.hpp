// Midpoints of all tokens from the leading bit planes of their keys.
#ifndef NEARKV_HLS_PLANE_SCORE_HPP_
#define NEARKV_HLS_PLANE_SCORE_HPP_

#include "kernels/types.hpp"

namespace nearkv::kernels {

constexpr int kQuadTokens = 4;                 ///< Tokens whose planes pass side by side.
constexpr int kQuads = kTokens / kQuadTokens;  ///< Of a page.
constexpr int kMidpointLimit = 32767;
constexpr int kHiddenMidpoint = -32768;

}  // namespace nearkv::kernels

/// 16-bit midpoints after the first `planes` planes, 1 to 4 (ARITHMETIC.md 5.1).
///
/// As `nearkv_digest_bound`; besides `planes_at` is K_PLANE0 and as many bursts as `planes` planes
/// take, and `visible` one mask a page. `midpoints` takes 16 bursts a page: 4 tokens by 8 rows of
/// 16 bits each. `scales` takes two bursts: each row's reference, and its shift X, in 64 bits.
extern "C" void nearkv_plane_score(const nearkv::kernels::Burst* memory, const std::uint32_t* pages,
                                   const std::int16_t* steps, const std::uint64_t* visible,
                                   int page_count, nearkv::kernels::ArrayPlace digest_at,
                                   nearkv::kernels::ArrayPlace planes_at,
                                   const nearkv::kernels::Burst* query, int group, int channels,
                                   int key_exponent, int planes, nearkv::kernels::Burst* midpoints,
                                   nearkv::kernels::Burst* scales);

#endif  // NEARKV_HLS_PLANE_SCORE_HPP_

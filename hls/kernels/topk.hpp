// The best k of a row's tokens by exact score.
#ifndef NEARKV_HLS_TOPK_HPP_
#define NEARKV_HLS_TOPK_HPP_

#include "kernels/types.hpp"

namespace nearkv::kernels {

constexpr int kTopkTokens = 32768;  ///< Most visible tokens of one call: they stay on chip.
constexpr int kLargestK = NKV_MAX_TOP_K;

/// A token as a result: two of these are half a burst's quarter.
struct RankedToken {
  std::int64_t score;
  std::int64_t token;  ///< Index in the list.
};

}  // namespace nearkv::kernels

/// The `k` visible tokens of `row` with the largest S, descending, ties by index ascending; all of
/// them if there are fewer. `scores` is what `nearkv_score` wrote, `visible` a mask a page, with at
/// most kTopkTokens tokens in all: longer lists take several calls, whose results rank once more.
/// Returns how many there are.
extern "C" int nearkv_topk(const nearkv::kernels::Burst* scores, const std::uint64_t* visible,
                           int page_count, int row, int k, nearkv::kernels::RankedToken* best);

#endif  // NEARKV_HLS_TOPK_HPP_

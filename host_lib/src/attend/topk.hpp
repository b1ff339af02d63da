// TOPK: the best k tokens of a list for each query row (ARITHMETIC.md 6).
#pragma once

#include <cstdint>
#include <vector>

#include "attend/dense.hpp"
#include "attend/exact_rows.hpp"
#include "attend/plane_scan.hpp"
#include "attend/query.hpp"
#include "attend/traffic.hpp"
#include "device/workers.hpp"
#include "page/page_list.hpp"

namespace nearkv {

struct TopKSpec {
  std::uint8_t select = NKV_SELECT_CERTIFIED;
  unsigned planes = NKV_TOPK_PLANES;  ///< 0: digests alone.
  unsigned z16 = 64;                  ///< STATISTICAL only.
  std::size_t top_k = 0;
  std::size_t seeds = 0;  ///< Tokens per row that are read first, at least.

  /// What a checked command asks for.
  static TopKSpec of(const nkv_topk_command& command);

  /// SIGN and DIGEST read no more than the seeds.
  [[nodiscard]] bool is_filter() const {
    return select == NKV_SELECT_SIGN || select == NKV_SELECT_DIGEST;
  }
};

/// One row's winners, best first.
struct RankedToken {
  std::uint32_t token = 0;
  double score = 0;  ///< q k in real numbers, unscaled; INDEXER: the weighted sum.
};

struct TopKResult {
  std::vector<std::vector<RankedToken>> rows;
  Traffic traffic;
  bool nonfinite = false;
};

/// CERTIFIED and STATISTICAL: two phases over the search planes; SIGN and DIGEST: the first of
/// them. `scan` is a buffer kept between commands.
Outcome select_by_planes(const PageList& list, const Visibility& visibility, const Query& query,
                         const TopKSpec& request, Workers* workers, PlaneScan* scan,
                         TopKResult* result);

/// FULL: every visible key row is read. All are scored in binary32, and those that its rounding
/// leaves in question, exactly. `scratch`, one per worker, is kept between commands.
Outcome select_by_full_scan(const PageList& list, const Visibility& visibility, const Query& query,
                            std::size_t top_k, Workers* workers, std::vector<DenseScratch>* scratch,
                            TopKResult* result);

/// INDEXER: one ranking for the whole group, by the sum over rows of weight * relu(q k), times the
/// key's scale. Every visible key row is read.
Outcome select_by_indexer(const PageList& list, const Visibility& visibility, const Query& query,
                          const std::vector<float>& weights, std::size_t top_k, Workers* workers,
                          TopKResult* result);

}  // namespace nearkv

// TOPK: the best k tokens of a list for each query row (ARITHMETIC.md 6).
#pragma once

#include <cstdint>
#include <vector>

#include "attend/dense.hpp"
#include "attend/query.hpp"
#include "attend/traffic.hpp"
#include "device/workers.hpp"
#include "page/page_list.hpp"

namespace nearkv {

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

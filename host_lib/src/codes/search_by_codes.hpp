// TOPK, mode STATISTICAL, by codes (section 14 of ARITHMETIC.md).
#pragma once

#include "attend/topk.hpp"
#include "codes/attend_by_codes.hpp"

namespace nearkv {

struct SearchSpec {
  std::size_t top_k = 0;
  unsigned z16 = NKV_USUAL_SEARCH_Z;  ///< Standard deviations, in sixteenths.
};

/// *is_served is false, and nothing was done, if codes do not serve the list. `dense` are FULL's
/// buffers.
Outcome search_by_codes(const PageList& list, const Visibility& visibility, const Query& query,
                        const SearchSpec& request, Workers* workers, CodeScratch* scratch,
                        std::vector<DenseScratch>* dense, TopKResult* result, bool* is_served);

}  // namespace nearkv

// Memory traffic in bursts, as completions report it (section 9).
#ifndef NEARKV_MODEL_TRAFFIC_HPP_
#define NEARKV_MODEL_TRAFFIC_HPP_

#include <cstdint>

#include "page_list.hpp"

namespace nearkv::model {

struct Traffic {
  uint64_t stream = 0;
  uint64_t refine = 0;
  uint64_t exact = 0;
  uint64_t value = 0;

  [[nodiscard]] uint64_t total() const { return stream + refine + exact + value; }
};

/// Bursts of a whole array.
uint64_t array_bursts(const Page& page, nkv_page_array array);

/// Bursts that hold a wanted byte of an array of rows, all of `row_bytes`.
uint64_t row_bursts(TokenMask rows, uint64_t row_bytes);

/// A plane scan of all listed pages.
uint64_t scan_bursts(const ListedPages& pages, int planes);

/// V_SUM of the pages that have tokens outside the exact set (TAIL and BOUNDED).
uint64_t page_sum_bursts(const ListedPages& pages, const TokenSet& rests);

/// DENSE's read of all listed pages.
uint64_t dense_bursts(const ListedPages& pages);

/// FULL's and INDEXER's read of all listed pages.
uint64_t full_scan_bursts(const ListedPages& pages);

/// Reading chosen key rows, respectively value rows, in one pass.
uint64_t key_row_bursts(const ListedPages& pages, const TokenSet& tokens);
uint64_t value_row_bursts(const ListedPages& pages, const TokenSet& tokens);

/// One plane's bits of the granules that hold `tokens`, with the digests read again.
uint64_t refine_bursts(const ListedPages& pages, const TokenSet& tokens);

/// Section 5.4: tokens of a granule, the least power of two whose plane bits fill whole bursts.
uint32_t granule_tokens(uint32_t head_dim);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_TRAFFIC_HPP_

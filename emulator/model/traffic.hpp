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

/// DENSE's read of all listed pages.
uint64_t dense_bursts(const ListedPages& pages);

/// FULL's and INDEXER's read of all listed pages.
uint64_t full_scan_bursts(const ListedPages& pages);

/// Reading chosen key rows, respectively value rows, in one pass.
uint64_t key_row_bursts(const ListedPages& pages, const TokenSet& tokens);
uint64_t value_row_bursts(const ListedPages& pages, const TokenSet& tokens);

/// Tokens of a granule, the least power of two whose bits in a plane fill whole bursts (5.3).
uint32_t granule_tokens(uint32_t head_dim);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_TRAFFIC_HPP_

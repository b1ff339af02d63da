// Exact key and value rows of chosen tokens of a list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "attend/exact.hpp"
#include "attend/traffic.hpp"
#include "device/workers.hpp"
#include "page/page_list.hpp"

namespace nearkv {

/// Tokens that have been read exactly, ascending, with their scores for every row.
struct ExactTokens {
  std::size_t rows = 0;
  std::vector<std::uint32_t> tokens;
  std::vector<std::int64_t> scores;  ///< [tokens][rows].

  [[nodiscard]] std::span<const std::int64_t> of(std::size_t index) const {
    return std::span(scores).subspan(index * rows, rows);
  }
};

/// Reads the key rows of the tokens in `chosen` (a mask per page) and scores them. Adds what was
/// read to `traffic->exact`. Pages are opened and their small arrays verified; scattered rows rely
/// on memory ECC.
Outcome score_exactly(const PageList& list, std::span<const std::uint64_t> chosen,
                      const ExactScorer& scorer, std::size_t dim, Workers* workers,
                      ExactTokens* result, Traffic* traffic);

}  // namespace nearkv

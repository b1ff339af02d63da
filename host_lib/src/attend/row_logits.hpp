// Base-2 logits of one query row, from stored midpoints and from exact scores.
#pragma once

#include <cstdint>
#include <vector>

#include "attend/attend.hpp"
#include "attend/sparse.hpp"

namespace nearkv {

struct RowLogits {
  MidpointLogit midpoint;
  double per_score = 0;  ///< Logit of one score unit.

  [[nodiscard]] float exact(std::int64_t score) const;
};

/// One RowLogits per query row, after a scan.
[[nodiscard]] std::vector<RowLogits> row_logits(const AttendContext& context,
                                                const AttendSpec& request);

}  // namespace nearkv

// What a page remembers of its values (section 2.3).
#ifndef NEARKV_MODEL_VALUE_STATISTICS_HPP_
#define NEARKV_MODEL_VALUE_STATISTICS_HPP_

#include <cstdint>
#include <span>
#include <vector>

#include "number.hpp"

namespace nearkv::model {

struct ValueStatistics {
  int exponent = 0;           ///< v_exponent.
  std::vector<int32_t> sums;  ///< V_SUM, per channel.
  float residual = 0.0f;      ///< v_residual.
};

/// Statistics of values [PAGE_TOKENS][value_dim]; elements that are not finite count as zero.
ValueStatistics value_statistics(std::span<const Number> values, uint32_t value_dim);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_VALUE_STATISTICS_HPP_

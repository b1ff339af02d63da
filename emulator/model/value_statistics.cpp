#include "value_statistics.hpp"

#include <cmath>

#include "element.hpp"
#include "nkv_abi.h"
#include "rounding.hpp"

namespace nearkv::model {

ValueStatistics value_statistics(std::span<const Number> values, uint32_t value_dim) {
  ValueStatistics statistics;
  statistics.exponent = largest_exponent(values);
  int64_t squares = 0;          // ΣΣ v'²
  int64_t squares_of_sums = 0;  // Σ_c (Σ_t v')²
  for (uint32_t channel = 0; channel < value_dim; ++channel) {
    int32_t sum = 0;
    int64_t coarse_sum = 0;
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      const int32_t value = value_integer(values[token * value_dim + channel], statistics.exponent);
      const int64_t coarse = value >> 9;
      sum += value;
      coarse_sum += coarse;
      squares += coarse * coarse;
    }
    statistics.sums.push_back(sum);
    squares_of_sums += coarse_sum * coarse_sum;
  }
  // Below 2^53, so that binary64 holds it exactly and the conversion rounds once.
  const int64_t numerator = NKV_PAGE_TOKENS * squares - squares_of_sums;
  statistics.residual = nearest_binary32(
      std::ldexp(static_cast<double>(numerator), 2 * (statistics.exponent - 141) - 12));
  return statistics;
}

}  // namespace nearkv::model

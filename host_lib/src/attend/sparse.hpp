// Kernels for tokens that are read one by one, and for those that enter as their page's mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "page/row_source.hpp"

namespace nearkv {

/// Base-2 logit of a stored midpoint m: slope * m + intercept. If soft_cap > 0, that soft-capped at
/// the ends of lines of kLine midpoints, and on the line between them (ARITHMETIC.md 7.2).
struct MidpointLogit {
  static constexpr int kLine = 256;

  float slope = 0;
  float intercept = 0;
  float soft_cap = 0;  ///< Base 2.

  [[nodiscard]] float of(std::int32_t mid) const;
};

/// weights[t] = 2^(logit - reference) for the tokens of a page in `mask`, 0 for the others; gives
/// their sum.
float weigh_midpoints(const std::int16_t* mids, std::uint64_t mask, const MidpointLogit& logit,
                      float reference, float* weights);

/// levels[t] of a page's 64 tokens: 7 for every two octaves that the logit lies below `top`, at
/// most `last` (ARITHMETIC.md 8.2).
void level_midpoints(const std::int16_t* mids, const MidpointLogit& logit, float top, int last,
                     std::uint8_t* levels);

/// Adds weights[row] * value to accumulator[row], [rows][values.dim] in kernel order, and the value
/// itself to `page_sum` if that is not null.
void accumulate_token(const RowSource& values, std::size_t token, std::span<const float> weights,
                      float* accumulator, float* page_sum);

/// mean[i] = (sums[channels[i]] * unit - subtract[i]) / tokens; zero where channels[i] >=
/// value_dim. `sums` are V_SUM in channel order; `subtract` may be null.
void page_mean(const std::int32_t* sums, std::size_t value_dim, float unit, const float* subtract,
               std::size_t tokens, std::span<const std::int32_t> channels, float* mean);

/// y = weight * value - approximate * mean; state += y, group += more * y.
void add_difference(const float* value, const float* mean, std::size_t dim, float weight,
                    float approximate, float more, float* state, float* group);

/// One row of a page as floats, in kernel order.
void decode_value(const RowSource& values, std::size_t token, float* out);

/// accumulator[c] += weight * values[c].
void add_scaled(float weight, const float* values, std::size_t dim, float* accumulator);

}  // namespace nearkv

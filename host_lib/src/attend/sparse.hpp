// Kernels for tokens that are read one by one, and for those that enter as their page's mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "page/row_source.hpp"

namespace nearkv {

/// Base-2 logit of a stored midpoint m: slope * m + intercept, soft-capped if soft_cap > 0.
struct MidpointLogit {
  float slope = 0;
  float intercept = 0;
  float soft_cap = 0;  ///< Base 2.

  [[nodiscard]] float of(float mid) const;
};

/// Weights of a page's tokens: their sum and the sum of their squares.
struct WeightSums {
  float sum = 0;
  float squares = 0;
};

/// weights[t] = 2^(logit - reference) for the tokens of a page in `mask`, 0 for the others.
WeightSums weigh_midpoints(const std::int16_t* mids, std::uint64_t mask, const MidpointLogit& logit,
                           float reference, float* weights);

/// Adds weights[row] * value to accumulator[row], [rows][values.dim] in kernel order, and the value
/// itself to `page_sum` if that is not null.
void accumulate_token(const RowSource& values, std::size_t token, std::span<const float> weights,
                      float* accumulator, float* page_sum);

/// mean[i] = (sums[channels[i]] * unit - subtract[i]) / tokens; zero where channels[i] >=
/// value_dim. `sums` are V_SUM in channel order; `subtract` may be null.
void page_mean(const std::int32_t* sums, std::size_t value_dim, float unit, const float* subtract,
               std::size_t tokens, std::span<const std::int32_t> channels, float* mean);

/// squares[t] += factor * ((p_t - mean)^2 spread + p_t^2 noise) for the tokens of `mask`: what a
/// token may add to a row's squared error (ARITHMETIC.md 8). own[t] is set to the added term.
void add_contributions(const float* weights, std::uint64_t mask, float mean, float spread,
                       float noise, float factor, float* own, float* squares);

/// Squared distance of two vectors.
[[nodiscard]] float squared_distance(const float* a, const float* b, std::size_t dim);

/// Sums of one row over the sampled tokens.
struct SampleSums {
  float* correction = nullptr;    ///< Sum of e / q, [dim].
  float* cross = nullptr;         ///< Sum of g d e, [dim].
  double squares = 0;             ///< Sum of g |e|^2.
  double difference_squares = 0;  ///< Sum of g d^2.
  double difference = 0;          ///< Sum of d / q.
};

/// One sampled token of a row: e = d (mean - output) + lift (value - mean), d and lift already
/// divided by Z; g = (1 - q) / q^2.
void add_sample(const float* value, const float* mean, const float* output, std::size_t dim,
                float d, float lift, float inverse_q, float g, SampleSums* sums);

/// One row of a page as floats, in kernel order.
void decode_value(const RowSource& values, std::size_t token, float* out);

/// accumulator[c] += weight * values[c].
void add_scaled(float weight, const float* values, std::size_t dim, float* accumulator);

}  // namespace nearkv

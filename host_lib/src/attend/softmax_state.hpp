// Running softmax of query rows over a part of the tokens.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace nearkv {

/// Per row: the largest logit so far (base 2), the sum of weights relative to it, and the weighted
/// sum of values. Partial states over any split of the tokens merge in any order to the same
/// tolerance.
struct SoftmaxState {
  std::size_t dim = 0;
  std::vector<float> maximum;
  std::vector<float> sum;
  std::vector<float> accumulator;  ///< [rows][dim]; the order of channels is the writer's affair.

  void reset(std::size_t rows, std::size_t channels) {
    dim = channels;
    maximum.assign(rows, -std::numeric_limits<float>::infinity());
    sum.assign(rows, 0.0F);
    accumulator.assign(rows * channels, 0.0F);
  }

  [[nodiscard]] std::size_t rows() const { return maximum.size(); }
  [[nodiscard]] std::span<float> values(std::size_t row) {
    return std::span(accumulator).subspan(row * dim, dim);
  }
  [[nodiscard]] std::span<const float> values(std::size_t row) const {
    return std::span(accumulator).subspan(row * dim, dim);
  }

  /// Lifts a row's reference to `logit` if that is larger, scaling what has been summed.
  void raise(std::size_t row, float logit) {
    if (!(logit > maximum[row])) return;
    const float factor = std::exp2(maximum[row] - logit);
    sum[row] *= factor;
    for (float& value : values(row)) value *= factor;
    maximum[row] = logit;
  }

  void merge(const SoftmaxState& other) {
    for (std::size_t row = 0; row < rows(); ++row) {
      if (other.sum[row] == 0.0F) continue;
      raise(row, other.maximum[row]);
      const float factor = std::exp2(other.maximum[row] - maximum[row]);
      sum[row] += factor * other.sum[row];
      const std::span<const float> from = other.values(row);
      const std::span<float> to = values(row);
      for (std::size_t channel = 0; channel < dim; ++channel) to[channel] += factor * from[channel];
    }
  }
};

}  // namespace nearkv

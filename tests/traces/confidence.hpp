// Whether a simulated mean agrees with a closed form.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace nearkv::traces::test {

/// A mean of dependent readings and its standard error, by the means of 30 batches.
struct BatchMeans {
  explicit BatchMeans(const std::vector<double>& readings) {
    constexpr std::size_t kBatches = 30;
    const std::size_t length = readings.size() / kBatches;
    std::vector<double> means(kBatches);
    for (std::size_t i = 0; i < kBatches * length; ++i) {
      means[i / length] += readings[i] / static_cast<double>(length);
    }
    for (const double one : means) mean += one / kBatches;
    double squares = 0;
    for (const double one : means) squares += (one - mean) * (one - mean);
    error = std::sqrt(squares / (kBatches - 1) / kBatches);
  }

  double mean = 0;
  double error = 0;
};

/// The closed form lies in the 99.9 % confidence interval of the simulated mean (Student's t of 29
/// degrees: 3.66), widened by `bias`, a share of it; and the interval is no wider than 8 % of it.
inline void expect_agrees(const std::vector<double>& readings, double closed_form,
                          double bias = 0) {
  const BatchMeans simulated(readings);
  const double half_width = 3.66 * simulated.error;
  EXPECT_LE(std::abs(simulated.mean - closed_form), half_width + bias * closed_form)
      << "simulated " << simulated.mean << " ± " << half_width << ", closed form " << closed_form;
  EXPECT_LE(half_width, 0.08 * closed_form) << "too few readings to tell";
}

}  // namespace nearkv::traces::test

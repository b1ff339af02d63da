#include "correction.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "rows.hpp"

namespace nearkv::model {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

std::vector<std::vector<double>> sampled_values(const TailState& state,
                                                std::span<const SampledToken> sample) {
  const int exponent = state.task().input.exponents.value;
  std::vector<std::vector<double>> values;
  for (const SampledToken& sampled : sample) {
    const Page& page = state.pages()[sampled.page].page;
    const auto integers = value_row(page, sampled.token, exponent);
    values.push_back(value_numbers(integers, exponent));
  }
  return values;
}

CorrectedRow uncorrected_row(const Estimate& estimate, size_t row) {
  const auto output = estimate.output(row);
  return {.output = {output.begin(), output.end()},
          .log2_sum = static_cast<double>(estimate.reference(row)) + std::log2(estimate.sum(row)),
          .error = kUnknown};
}

// One row's sample: what each sampled token changes.
class RowSample {
 public:
  RowSample(const Estimate& estimate, size_t row, std::span<const SampledToken> sample,
            std::span<const std::vector<double>> values)
      : estimate_(estimate), row_(row), sample_(sample), values_(values) {
    for (const SampledToken& sampled : sample) {
      const int64_t logit = estimate.state().logit(row, sampled.page, sampled.token);
      true_weights_.push_back(estimate.weight_of_logit(row, logit));
    }
  }

  // (w_i − p_i) / Z
  [[nodiscard]] double weight_change(size_t i) const {
    return (true_weights_[i] - estimate_.weight(row_, sample_[i].page, sample_[i].token)) /
           estimate_.sum(row_);
  }

  // One channel of e_i = ((w_i − p_i)(v^ − O^) + (w_i − p̄)(v_i − v^)) / Z
  [[nodiscard]] double output_change(size_t i, size_t c) const {
    const double mean = estimate_.mean_value(sample_[i].page)[c];
    const double spread = true_weights_[i] - estimate_.mean_weight(row_, sample_[i].page);
    return weight_change(i) * (mean - estimate_.output(row_)[c]) +
           spread / estimate_.sum(row_) * (values_[i][c] - mean);
  }

  // n = 1 + Σ (w_i − p_i) / (q_i Z)
  [[nodiscard]] double normaliser() const {
    double n = 1.0;
    for (size_t i = 0; i < sample_.size(); ++i) n += weight_change(i) / sample_[i].probability;
    return n;
  }

  // C = Σ e_i / q_i / n
  [[nodiscard]] std::vector<double> correction(double n) const {
    std::vector<double> sum(estimate_.output(row_).size(), 0.0);
    for (size_t i = 0; i < sample_.size(); ++i) {
      for (size_t c = 0; c < sum.size(); ++c) {
        sum[c] += output_change(i, c) / sample_[i].probability;
      }
    }
    for (double& element : sum) element /= n;
    return sum;
  }

  // S² = Σ |e_i − (w_i − p_i) / Z · C|² (1 − q_i) / q_i² / n²
  [[nodiscard]] double variance(double n, std::span<const double> correction) const {
    double sum = 0;
    for (size_t i = 0; i < sample_.size(); ++i) {
      double distance2 = 0;
      for (size_t c = 0; c < correction.size(); ++c) {
        const double difference = output_change(i, c) - weight_change(i) * correction[c];
        distance2 += difference * difference;
      }
      const double q = sample_[i].probability;
      sum += distance2 * (1.0 - q) / (q * q);
    }
    return sum / (n * n);
  }

 private:
  const Estimate& estimate_;
  size_t row_;
  std::span<const SampledToken> sample_;
  std::span<const std::vector<double>> values_;
  std::vector<double> true_weights_;
};

CorrectedRow correct_row(const Estimate& estimate, size_t row, const RowSample& sample,
                         double standard_deviations) {
  CorrectedRow corrected = uncorrected_row(estimate, row);
  // Tokens that were badly underestimated, or a sum driven below zero, say only that the state was
  // wrong: the row counts as missed and the sample joins the exact set.
  const double n = sample.normaliser();
  if (!std::isfinite(n) || n <= 0.0) return corrected;
  const auto correction = sample.correction(n);
  const double variance = sample.variance(n, correction);
  if (!std::isfinite(variance)) return corrected;

  const double size = norm_of(correction);
  const double kept = size > 0.0 ? std::max(0.0, 1.0 - variance / (size * size)) : 0.0;
  for (size_t c = 0; c < correction.size(); ++c) corrected.output[c] += kept * correction[c];
  corrected.log2_sum += std::log2(n);
  corrected.error = standard_deviations * std::sqrt(variance);
  return corrected;
}

}  // namespace

double CorrectedRow::bound() const { return error == 0.0 ? 0.0 : error / norm_of(output); }

std::vector<CorrectedRow> correct(const Estimate& estimate, std::span<const SampledToken> sample,
                                  double standard_deviations) {
  const auto values = sampled_values(estimate.state(), sample);
  std::vector<CorrectedRow> corrected;
  for (size_t row = 0; row < estimate.rows(); ++row) {
    corrected.push_back(
        correct_row(estimate, row, RowSample(estimate, row, sample, values), standard_deviations));
  }
  return corrected;
}

std::vector<CorrectedRow> uncorrected(const Estimate& estimate) {
  std::vector<CorrectedRow> rows;
  for (size_t row = 0; row < estimate.rows(); ++row) {
    rows.push_back(uncorrected_row(estimate, row));
  }
  return rows;
}

}  // namespace nearkv::model

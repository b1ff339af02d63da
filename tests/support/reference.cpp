#include "support/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nearkv::test {

namespace {

std::vector<double> numbers_of_row(std::span<const std::uint16_t> patterns) {
  std::vector<double> numbers;
  for (const std::uint16_t pattern : patterns) {
    numbers.push_back(static_cast<double>(from_bf16(pattern)));
  }
  return numbers;
}

/// Minus infinity for tokens that take no part.
std::vector<double> logits_of(const KvNumbers& data, std::span<const double> query,
                              const AttentionOptions& options) {
  std::vector<double> logits(data.tokens, -std::numeric_limits<double>::infinity());
  for (std::size_t t = 0; t < data.tokens; ++t) {
    const auto key = std::span(data.keys).subspan(t * data.head_dim, data.head_dim);
    const bool finite = std::ranges::all_of(key, [](double k) { return std::isfinite(k); });
    if (!options.sees(t) || !finite) continue;
    double dot = 0;
    for (std::size_t c = 0; c < data.head_dim; ++c) dot += query[c] * key[c];
    dot *= options.scale;
    logits[t] = options.soft_cap > 0 ? options.soft_cap * std::tanh(dot / options.soft_cap) : dot;
  }
  return logits;
}

}  // namespace

KvNumbers numbers_of(const KvData& data) {
  return {data.tokens, data.head_dim, data.value_dim, numbers_of_row(data.keys),
          numbers_of_row(data.values)};
}

Attention reference_attention(const KvNumbers& data, std::span<const double> query,
                              const AttentionOptions& options) {
  const std::vector<double> logits = logits_of(data, query, options);
  double largest = -std::numeric_limits<double>::infinity();
  for (const double logit : logits) largest = std::max(largest, logit);
  Attention result;
  result.output.assign(data.value_dim, 0.0);
  result.lse = largest;
  if (std::isinf(largest)) return result;
  double sum = 0;
  for (std::size_t t = 0; t < data.tokens; ++t) {
    const double weight = std::exp(logits[t] - largest);
    if (weight == 0) continue;
    sum += weight;
    for (std::size_t c = 0; c < data.value_dim; ++c) {
      const double value = data.values[t * data.value_dim + c];
      if (std::isfinite(value)) result.output[c] += weight * value;
    }
  }
  result.lse = largest + std::log(sum);
  for (double& element : result.output) element /= sum;
  return result;
}

Attention reference_attention(const KvData& data, std::span<const std::uint16_t> query,
                              const AttentionOptions& options) {
  return reference_attention(numbers_of(data), numbers_of_row(query), options);
}

double max_norm_error(std::span<const float> a, std::span<const double> b) {
  double error = 0;
  double size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    error = std::max(error, difference);
    size = std::max(size, std::abs(b[i]));
  }
  return error == 0 ? 0 : error / size;
}

double relative_error(std::span<const float> a, std::span<const double> b) {
  double error = 0;
  double size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    error += difference * difference;
    size += b[i] * b[i];
  }
  return error == 0 ? 0 : std::sqrt(error / size);
}

}  // namespace nearkv::test

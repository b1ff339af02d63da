#include "support/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nearkv::test {

std::vector<double> reference_logits(const KvData& data, std::span<const std::uint16_t> query,
                                     const AttentionOptions& options) {
  std::vector<double> logits(data.tokens, -std::numeric_limits<double>::infinity());
  for (std::size_t t = 0; t < data.tokens; ++t) {
    if (!options.sees(t)) continue;
    double dot = 0;
    for (std::size_t c = 0; c < data.head_dim; ++c) {
      dot += static_cast<double>(from_bf16(query[c])) * static_cast<double>(data.key(t, c));
    }
    dot *= options.scale;
    logits[t] = options.soft_cap > 0 ? options.soft_cap * std::tanh(dot / options.soft_cap) : dot;
  }
  return logits;
}

Attention reference_attention(const KvData& data, std::span<const std::uint16_t> query,
                              const AttentionOptions& options) {
  const std::vector<double> logits = reference_logits(data, query, options);
  const double largest = logits.empty() ? 0 : *std::ranges::max_element(logits);
  Attention result;
  result.output.assign(data.value_dim, 0.0);
  double sum = 0;
  for (std::size_t t = 0; t < data.tokens; ++t) {
    if (!options.sees(t)) continue;
    const double weight = std::exp(logits[t] - largest);
    sum += weight;
    for (std::size_t c = 0; c < data.value_dim; ++c) {
      result.output[c] += weight * static_cast<double>(data.value(t, c));
    }
  }
  result.lse = sum > 0 ? largest + std::log(sum) : -std::numeric_limits<double>::infinity();
  for (double& element : result.output) element = sum > 0 ? element / sum : 0.0;
  return result;
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

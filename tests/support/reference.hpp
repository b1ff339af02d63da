// Attention in double precision, the plain way: what every device is compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "support/kv_data.hpp"

namespace nearkv::test {

/// What a query may see, and how logits are formed.
struct AttentionOptions {
  double scale = 1;
  double soft_cap = 0;
  std::size_t tokens = 0;  ///< Causal limit.
  std::size_t window = 0;
  std::size_t sinks = 0;

  [[nodiscard]] bool sees(std::size_t token) const {
    return token < tokens && (window == 0 || token + window >= tokens || token < sinks);
  }
};

struct Attention {
  std::vector<double> output;  ///< [value_dim].
  double lse = 0;              ///< Natural.
};

/// Logits of one query row, -inf for hidden tokens.
std::vector<double> reference_logits(const KvData& data, std::span<const std::uint16_t> query,
                                     const AttentionOptions& options);

Attention reference_attention(const KvData& data, std::span<const std::uint16_t> query,
                              const AttentionOptions& options);

/// Largest |a - b| divided by the largest |b|; infinite if an element of `a` is NaN.
double max_norm_error(std::span<const float> a, std::span<const double> b);

/// |a - b| / |b|, Euclidean.
double relative_error(std::span<const float> a, std::span<const double> b);

}  // namespace nearkv::test

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

/// Rows of one KV head as numbers, of whatever type they are.
struct KvNumbers {
  std::size_t tokens = 0;
  std::size_t head_dim = 0;
  std::size_t value_dim = 0;
  std::vector<double> keys;    ///< [tokens][head_dim].
  std::vector<double> values;  ///< [tokens][value_dim].
};

KvNumbers numbers_of(const KvData& data);

struct Attention {
  std::vector<double> output;  ///< [value_dim].
  double lse = 0;              ///< Natural.
};

/// Attention of one query row. A key that holds a NaN or an infinity takes no part; a value that is
/// not finite counts as zero.
Attention reference_attention(const KvNumbers& data, std::span<const double> query,
                              const AttentionOptions& options);
Attention reference_attention(const KvData& data, std::span<const std::uint16_t> query,
                              const AttentionOptions& options);

/// Largest |a - b| divided by the largest |b|; infinite if an element of `a` is NaN.
double max_norm_error(std::span<const float> a, std::span<const double> b);

/// |a - b| / |b|, Euclidean.
double relative_error(std::span<const float> a, std::span<const double> b);

}  // namespace nearkv::test

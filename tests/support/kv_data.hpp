// Keys, values and queries for tests: distributions that real caches and adversaries produce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace nearkv::test {

enum class Shape {
  kGaussian,    ///< Channels of very different scale.
  kBiased,      ///< Means far from zero, a few channels ten times as large.
  kTopics,      ///< Tokens share content in runs, keys and values alike.
  kOutliers,    ///< Rare tokens a hundred times as large.
  kDuplicates,  ///< Few distinct keys, many exact ties.
  kSparse,      ///< Half of all elements are zero.
};

/// bf16 rows of one KV head.
struct KvData {
  std::size_t tokens = 0;
  std::size_t head_dim = 0;
  std::size_t value_dim = 0;
  std::vector<std::uint16_t> keys;    ///< [tokens][head_dim].
  std::vector<std::uint16_t> values;  ///< [tokens][value_dim].

  [[nodiscard]] float key(std::size_t token, std::size_t channel) const;
  [[nodiscard]] float value(std::size_t token, std::size_t channel) const;
};

KvData make_kv(Shape shape, std::size_t tokens, std::size_t head_dim, std::size_t value_dim,
               std::uint32_t seed);

/// bf16 queries [rows][data.head_dim] whose logits q k / sqrt(head_dim) have about the standard
/// deviation `spread`; every other row leans towards one token.
std::vector<std::uint16_t> make_queries(const KvData& data, std::size_t rows, double spread,
                                        std::uint32_t seed);

/// Rounds whole pages of rows to ones that codec INT8 gives back to the bit: each of its groups, a
/// channel of a page's keys or a token of values, spans the same 256 steps.
void round_for_int8(KvData* data);

[[nodiscard]] float from_bf16(std::uint16_t bits);
[[nodiscard]] std::uint16_t to_bf16(float value);

}  // namespace nearkv::test

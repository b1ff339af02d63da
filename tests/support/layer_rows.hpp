// Rows of all KV heads of a layer as an engine holds them, and the small pools that take them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nearkv/pool.hpp"
#include "support/kv_data.hpp"

namespace nearkv::test {

inline constexpr std::uint16_t kLayers = 2;
inline constexpr std::uint16_t kHeads = 2;
inline constexpr std::size_t kDim = 64;

/// Token-major rows [tokens][kHeads][kDim], the same for the same seed.
struct LayerRows {
  std::vector<KvData> heads;
  std::vector<std::uint16_t> keys;
  std::vector<std::uint16_t> values;

  explicit LayerRows(std::size_t tokens, std::uint32_t seed)
      : LayerRows(make_heads(tokens, seed)) {}

  /// kHeads heads of kDim channels.
  explicit LayerRows(std::vector<KvData> of_heads) : heads(std::move(of_heads)) {
    const std::size_t tokens = heads[0].tokens;
    keys.resize(tokens * kHeads * kDim);
    values.resize(keys.size());
    for (std::size_t t = 0; t < tokens; ++t) {
      for (std::size_t head = 0; head < kHeads; ++head) {
        const std::size_t to = (t * kHeads + head) * kDim;
        std::copy_n(&heads[head].keys[t * kDim], kDim, &keys[to]);
        std::copy_n(&heads[head].values[t * kDim], kDim, &values[to]);
      }
    }
  }

  static std::vector<KvData> make_heads(std::size_t tokens, std::uint32_t seed) {
    std::vector<KvData> made;
    for (std::uint32_t head = 0; head < kHeads; ++head) {
      made.push_back(make_kv(Shape::kTopics, tokens, kDim, kDim, seed * 100 + head));
    }
    return made;
  }

  /// As Pool::append takes them, from token `first` on.
  static HostRows host(const std::vector<std::uint16_t>& rows, std::size_t first) {
    return {reinterpret_cast<const std::byte*>(rows.data() + first * kHeads * kDim),
            kHeads * kDim * 2, kDim * 2};
  }
};

inline Pool::Options small_pool() {
  Pool::Options options;
  options.shape.layers = kLayers;
  options.shape.kv_heads = kHeads;
  options.shape.head_dim = kDim;
  options.shape.value_dim = kDim;
  options.max_sequences = 8;
  return options;
}

inline Status append(Pool* pool, std::uint64_t sequence, std::uint16_t layer, const LayerRows& rows,
                     std::size_t first, std::size_t tokens) {
  return pool->append(sequence, layer, LayerRows::host(rows.keys, first),
                      LayerRows::host(rows.values, first), static_cast<std::uint32_t>(tokens));
}

/// Whether tokens [first, first + rows' tokens) of a layer are these rows, bit for bit, in all
/// heads.
inline bool holds(Pool* pool, std::uint64_t sequence, std::uint16_t layer, std::uint32_t first,
                  const LayerRows& rows) {
  const auto count = static_cast<std::uint32_t>(rows.heads[0].tokens);
  std::vector<std::uint16_t> keys(count * kDim);
  std::vector<std::uint16_t> values(count * kDim);
  for (std::uint16_t head = 0; head < kHeads; ++head) {
    const Status status =
        pool->read(sequence, layer, head, first, count, std::as_writable_bytes(std::span(keys)),
                   std::as_writable_bytes(std::span(values)));
    if (status != Status::kOk || keys != rows.heads[head].keys ||
        values != rows.heads[head].values) {
      return false;
    }
  }
  return true;
}

}  // namespace nearkv::test

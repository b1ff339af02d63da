// Where a layer's query rows are, and where its answers go.
#pragma once

#include <cstddef>
#include <span>

#include "nearkv/block_attention.hpp"

namespace nearkv {

/// Thread safety: answers of different query heads at once.
class LayerRows {
 public:
  LayerRows(const BlockCache& cache, const BlockQueries& queries)
      : queries_(queries),
        kv_heads_(cache.kv_heads),
        dtype_(cache.dtype),
        row_bytes_(cache.row_bytes()) {}

  [[nodiscard]] std::size_t group() const { return queries_.group; }
  [[nodiscard]] std::size_t row_bytes() const { return row_bytes_; }

  /// Those of a KV head for a token of the step, which lie together.
  [[nodiscard]] std::span<const std::byte> queries(std::size_t token, std::size_t kv_head) const {
    const std::size_t bytes = group() * row_bytes_;
    return {queries_.queries + token * queries_.query_stride_bytes + kv_head * bytes, bytes};
  }

  /// A query head's answer, rounded to the cache's dtype; `lse2` is its LSE of base 2.
  void answer(std::size_t token, std::size_t query_head, std::span<const float> output,
              float lse2) const;

 private:
  const BlockQueries& queries_;
  std::size_t kv_heads_;
  std::uint8_t dtype_;
  std::size_t row_bytes_;
};

}  // namespace nearkv

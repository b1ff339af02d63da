// The unit of work of a batch over blocks, and what does it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attend/span.hpp"
#include "nearkv/block_attention.hpp"

namespace nearkv {

/// Some of one request's tokens, for one KV head and the query rows that share it.
struct BlockRun {
  const BlockCache* cache = nullptr;
  const std::int32_t* table = nullptr;  ///< The request's blocks.
  std::size_t kv_head = 0;
  std::size_t first_token = 0;
  std::size_t end_token = 0;
  const std::byte* query = nullptr;  ///< [group][head_dim] in the cache's dtype.
  std::size_t group = 0;
  float factor = 0;    ///< From a dot product to a base-2 logit.
  float soft_cap = 0;  ///< Base 2; 0: none.
};

/// Where a cache's rows lie.
[[nodiscard]] SpanShape shape_of(const BlockCache& cache);

/// Sets all of `sums` to the softmax over a run's tokens, for any number of query rows.
class RunKernel {
 public:
  /// The fastest that this machine has for a cache.
  explicit RunKernel(const BlockCache& cache)
      : shape_(shape_of(cache)), attend_span_bf16_(attend_span_bf16(shape_)) {}

  void attend(const BlockRun& run, const RowSums& sums) const;

 private:
  SpanShape shape_;
  AttendSpan attend_span_bf16_;  ///< Null: attend_span_portable().
};

/// The span of the run that begins with `token`, and ends with its block or kSpanTokens; false from
/// the run's end on. The next one begins as many tokens later as this one sees.
[[nodiscard]] bool span_at(const BlockRun& run, std::size_t token, Span* span);

}  // namespace nearkv

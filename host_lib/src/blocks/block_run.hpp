// The unit of work of a batch over blocks, and what does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "attend/span.hpp"
#include "blocks/batch_plan.hpp"
#include "nearkv/block_attention.hpp"

namespace nearkv {

/// Some of one request's tokens, for consecutive KV heads and the rows of consecutive queries.
struct BlockRun {
  const BlockCache* cache = nullptr;
  const std::int32_t* table = nullptr;  ///< The request's blocks.
  std::size_t first_head = 0;
  std::size_t heads = 1;
  std::size_t first_token = 0;
  std::size_t end_token = 0;
  const std::byte* query = nullptr;  ///< [heads][queries][group][head_dim] in the cache's dtype.
  std::size_t group = 0;
  std::span<const QueryPlace> queries;
  std::size_t window = 0;  ///< Newest tokens that a query sees; 0: all.
  float factor = 0;        ///< From a dot product to a base-2 logit.
  float soft_cap = 0;      ///< Base 2; 0: none.
};

/// kUnsupported if there is no kernel for a cache, kBadArgument if it is none.
[[nodiscard]] Status check_cache(const BlockCache& cache, const char** why);

/// Where a cache's rows lie.
[[nodiscard]] SpanShape shape_of(const BlockCache& cache);

/// Sets all of `sums`, [heads * queries.size() * group], to the softmax over those of a run's
/// tokens that each query sees, for any number of rows. A query that sees none of them has a
/// maximum of -inf, and zeros.
class RunKernel {
 public:
  /// The fastest that this machine has for a cache.
  explicit RunKernel(const BlockCache& cache)
      : shape_(shape_of(cache)), attend_span_bf16_(attend_span_bf16(shape_)) {}

  void attend(const BlockRun& run, const RowSums& sums) const;

 private:
  /// A span that begins with a run's token `token`.
  struct SeenSpan {
    Span span;
    std::size_t token = 0;
    bool by_all = false;  ///< All of the run's queries see all of it.
  };
  struct Rows {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  void attend_head(const BlockRun& run, std::size_t first_row, const SeenSpan& seen,
                   const Span* next, const RowSums& sums, SpanScope* scope) const;
  void attend(const BlockRun& run, const Rows& rows, const Span& span, const Span* next,
              const RowSums& sums, SpanScope* scope) const;

  SpanShape shape_;
  AttendSpan attend_span_bf16_;  ///< Null: attend_span_portable().
};

/// The span of the run's first head that begins with `token`, and ends with its block or
/// kSpanTokens; false from the run's end on. The next one begins as many tokens later as this one
/// sees.
[[nodiscard]] bool span_at(const BlockRun& run, std::size_t token, Span* span);

}  // namespace nearkv

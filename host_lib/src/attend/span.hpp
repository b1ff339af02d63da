// Dense attention to a few tokens whose rows lie together: the step that all exact paths share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nearkv/block_attention.hpp"

namespace nearkv {

/// Tokens that a kernel takes at a time: their scores stay in registers and the first-level cache.
inline constexpr std::size_t kSpanTokens = 64;

/// Query rows that a kernel takes at a time.
inline constexpr std::size_t kSpanRows = 16;

/// How the rows of all spans of one kind lie.
struct SpanShape {
  std::uint8_t dtype = 0;
  BlockLayout layout = BlockLayout::kRows;
  std::size_t block_tokens = 0;  ///< Of a block that a span lies in.
  std::size_t key_dim = 0;
  std::size_t value_dim = 0;
  std::size_t value_stride = 0;  ///< kRows: elements from one token's values to the next one's.
};

/// Query rows that share a KV head, of one query or of several.
struct SpanQuery {
  const std::byte* rows = nullptr;  ///< [count][key_dim] in the shape's dtype.
  std::size_t count = 0;            ///< At most kSpanRows.
  float factor = 0;                 ///< From a dot product to a base-2 logit.
  float soft_cap = 0;               ///< Base 2; 0: none.
};

/// Tokens [token, token + count) of a block, those that are seen.
struct Span {
  const std::byte* keys = nullptr;    ///< Of the block, for one KV head,
  const std::byte* values = nullptr;  ///< likewise. Null in a span to be fetched: not there.
  std::size_t token = 0;
  std::size_t count = 0;   ///< A multiple of 16 up to kSpanTokens.
  std::uint64_t seen = 0;  ///< Bit t: token + t is seen. The others may hold anything, even NaN.

  // Always inline: files compiled for different instructions share them.
  [[nodiscard, gnu::always_inline]] bool sees(std::size_t t) const { return (seen >> t & 1U) != 0; }
  [[nodiscard, gnu::always_inline]] bool is_whole() const {
    return seen == ~std::uint64_t{0} >> (kSpanTokens - count);
  }
};

/// Softmax over tokens, by row: what parts of one request merge by.
struct RowSums {
  float* maximum = nullptr;  ///< [count]: the largest base-2 logit; -inf at first.
  float* weight = nullptr;   ///< [count]: the sum of 2^(logit - maximum).
  float* values = nullptr;   ///< [count][value_dim]: V weighed so.
};

/// A thread's spans in a row. A kernel shapes the processor's matrix tiles once for all of them,
/// since that waits for whatever is under way; they are given back at the end. Until then nothing
/// else may compute on the thread: other libraries shape tiles their own way.
class SpanScope {
 public:
  SpanScope() = default;
  ~SpanScope();
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

  std::uint64_t tiles = 0;      ///< How a kernel has shaped them; 0: not at all.
  void (*release)() = nullptr;  ///< Gives them back; null: there is nothing to.
};

/// Adds a span to `sums`, whose channels lie in the kernel's order; fetches the span `next`, which
/// may be null, meanwhile.
using AttendSpan = void (*)(const SpanShape& shape, const SpanQuery& query, const Span& span,
                            const Span* next, const RowSums& sums, SpanScope* scope);

/// Dot products of the query's rows with the keys of a span's tokens, seen or not:
/// scores[row * kSpanTokens + t], aligned to 64 bytes. Fetches the keys of the span `next`, which
/// may be null, meanwhile.
using ScoreSpan = void (*)(const SpanShape& shape, const SpanQuery& query, const Span& span,
                           const Span* next, float* scores, SpanScope* scope);

/// By bf16 products; null where this machine or build has none, or for rows of another dtype or of
/// a number of channels that is no multiple of 32. AMX's tiles where there are any, else AVX-512.
[[nodiscard]] AttendSpan attend_span_bf16(const SpanShape& shape);
[[nodiscard]] AttendSpan attend_span_amx(const SpanShape& shape);
[[nodiscard]] AttendSpan attend_span_avx512(const SpanShape& shape);

/// Likewise, of keys alone: whatever the shape says of values, and of kRows only.
[[nodiscard]] ScoreSpan score_span_bf16(const SpanShape& shape);
[[nodiscard]] ScoreSpan score_span_amx(const SpanShape& shape);
[[nodiscard]] ScoreSpan score_span_avx512(const SpanShape& shape);

/// By Google Highway on any processor, of every dtype and layout; channels keep their order.
void attend_span_portable(const SpanShape& shape, const SpanQuery& query, const Span& span,
                          const Span* next, const RowSums& sums, SpanScope* scope);

/// Puts the channels of `rows` rows from the order of those kernels into their own.
void order_values_bf16(const SpanShape& shape, std::size_t rows, float* values);

}  // namespace nearkv

#include "blocks/block_run.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "nkv_abi.h"

namespace nearkv {

namespace {

/// Bits [begin, end) of a word.
std::uint64_t bits(std::size_t begin, std::size_t end) {
  return ~std::uint64_t{0} >> (kSpanTokens - (end - begin)) << begin;
}

/// Which tokens of a span a query sees. The span's first bit is the request's token `token`.
std::uint64_t seen_by(const QueryPlace& query, std::size_t window, const Span& span,
                      std::size_t token) {
  const std::size_t end = token + static_cast<std::size_t>(std::popcount(span.seen));
  const std::size_t from = std::max(query.first_seen(window), token);
  const std::size_t to = std::min(query.length, end);
  if (from >= to) return 0;
  const auto bit = static_cast<std::size_t>(std::countr_zero(span.seen));
  return bits(bit + from - token, bit + to - token);
}

}  // namespace

SpanShape shape_of(const BlockCache& cache) {
  SpanShape shape;
  shape.dtype = cache.dtype;
  shape.layout = cache.layout;
  shape.block_tokens = cache.block_tokens;
  shape.key_dim = shape.value_dim = shape.value_stride = cache.head_dim;
  return shape;
}

bool span_at(const BlockRun& run, std::size_t token, Span* span) {
  if (token >= run.end_token) return false;
  const BlockCache& cache = *run.cache;
  const std::size_t index = token / cache.block_tokens;
  const auto block = static_cast<std::size_t>(run.table[index]);
  const std::size_t place =
      block * cache.block_stride_bytes + run.kv_head * cache.head_stride_bytes;
  const std::size_t begin = token % cache.block_tokens;
  span->keys = cache.keys + place;
  span->values = cache.values + place;
  span->token = begin / kSpanTokens * kSpanTokens;
  span->count = std::min<std::size_t>(kSpanTokens, cache.block_tokens - span->token);
  const std::size_t end =
      std::min(span->token + span->count, run.end_token - index * cache.block_tokens);
  span->seen = bits(begin - span->token, end - span->token);
  return true;
}

void RunKernel::attend(const BlockRun& run, const RowSums& sums) const {
  const Rows all{0, run.queries.size() * run.group};
  std::fill_n(sums.maximum, all.count, -std::numeric_limits<float>::infinity());
  std::fill_n(sums.weight, all.count, 0.0F);
  std::fill_n(sums.values, all.count * run.cache->head_dim, 0.0F);
  Span span;
  Span after;
  std::size_t token = run.first_token;
  bool is_there = span_at(run, token, &span);
  while (is_there) {
    const std::size_t here = token;
    token += static_cast<std::size_t>(std::popcount(span.seen));
    is_there = span_at(run, token, &after);
    const Span* next = is_there ? &after : nullptr;
    // The first query sees the fewest new tokens, the last one the fewest old ones.
    if (seen_by(run.queries.front(), run.window, span, here) == span.seen &&
        seen_by(run.queries.back(), run.window, span, here) == span.seen) {
      attend(run, all, span, next, sums);
    } else {
      for (std::size_t query = 0; query < run.queries.size(); ++query) {
        Span its = span;
        its.seen = seen_by(run.queries[query], run.window, span, here);
        if (its.seen == 0) continue;
        attend(run, {query * run.group, run.group}, its, next, sums);
        next = nullptr;
      }
    }
    span = after;
  }
  if (attend_span_bf16_ != nullptr) order_values_bf16(shape_, all.count, sums.values);
}

void RunKernel::attend(const BlockRun& run, const Rows& rows, const Span& span, const Span* next,
                       const RowSums& sums) const {
  const std::size_t dim = shape_.key_dim;
  const AttendSpan attend_span =
      attend_span_bf16_ != nullptr ? attend_span_bf16_ : attend_span_portable;
  const std::size_t end = rows.first + rows.count;
  for (std::size_t row = rows.first; row < end; row += kSpanRows) {
    const SpanQuery query{run.query + row * dim * nkv_element_bytes(shape_.dtype),
                          std::min(end - row, kSpanRows), run.factor, run.soft_cap};
    attend_span(shape_, query, span, row == rows.first ? next : nullptr,
                {sums.maximum + row, sums.weight + row, sums.values + row * dim});
  }
}

}  // namespace nearkv

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

Span moved(const Span& span, std::size_t bytes) {
  Span to = span;
  to.keys += bytes;
  to.values += bytes;
  return to;
}

}  // namespace

Status check_cache(const BlockCache& cache, const char** why) {
  const bool is_known = cache.dtype == NKV_DTYPE_BF16 || cache.dtype == NKV_DTYPE_FP16 ||
                        cache.dtype == NKV_DTYPE_FP32;
  const bool has_tiles = cache.layout == BlockLayout::kTiles;
  if (!is_known || (has_tiles && cache.dtype != NKV_DTYPE_BF16)) {
    *why = "K and V must be bfloat16, float16 or float32, and bfloat16 in tiles";
    return Status::kUnsupported;
  }
  if (cache.head_dim == 0 || cache.head_dim % 16 != 0 || cache.head_dim > NKV_MAX_HEAD_DIM) {
    *why = "head_dim must be a multiple of 16 up to 576";
    return Status::kUnsupported;
  }
  if (cache.block_tokens == 0 || cache.block_tokens % (has_tiles ? 32 : 16) != 0) {
    *why = "block_tokens must be a multiple of 16, and of 32 in tiles";
    return Status::kUnsupported;
  }
  if (cache.keys == nullptr || cache.values == nullptr || cache.kv_heads == 0) {
    *why = "the cache has no memory or no KV heads";
    return Status::kBadArgument;
  }
  return Status::kOk;
}

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
      block * cache.block_stride_bytes + run.first_head * cache.head_stride_bytes;
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
  const std::size_t head_rows = run.queries.size() * run.group;
  const std::size_t rows = run.heads * head_rows;
  std::fill_n(sums.maximum, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(sums.weight, rows, 0.0F);
  std::fill_n(sums.values, rows * run.cache->head_dim, 0.0F);
  SpanScope scope;
  SeenSpan here;
  Span after;
  std::size_t token = run.first_token;
  bool is_there = span_at(run, token, &here.span);
  while (is_there) {
    here.token = token;
    // The first query sees the fewest new tokens, the last one the fewest old ones.
    here.by_all = seen_by(run.queries.front(), run.window, here.span, token) == here.span.seen &&
                  seen_by(run.queries.back(), run.window, here.span, token) == here.span.seen;
    token += static_cast<std::size_t>(std::popcount(here.span.seen));
    is_there = span_at(run, token, &after);
    for (std::size_t head = 0; head < run.heads; ++head) {
      const Span of_next_head = moved(here.span, run.cache->head_stride_bytes);
      const Span* const next = head + 1 < run.heads ? &of_next_head : is_there ? &after : nullptr;
      attend_head(run, head * head_rows, here, next, sums, &scope);
      here.span = of_next_head;
    }
    here.span = after;
  }
  if (attend_span_bf16_ != nullptr) order_values_bf16(shape_, rows, sums.values);
}

void RunKernel::attend_head(const BlockRun& run, std::size_t first_row, const SeenSpan& seen,
                            const Span* next, const RowSums& sums, SpanScope* scope) const {
  if (seen.by_all) {
    attend(run, {first_row, run.queries.size() * run.group}, seen.span, next, sums, scope);
    return;
  }
  for (std::size_t query = 0; query < run.queries.size(); ++query) {
    Span its = seen.span;
    its.seen = seen_by(run.queries[query], run.window, seen.span, seen.token);
    if (its.seen == 0) continue;
    attend(run, {first_row + query * run.group, run.group}, its, next, sums, scope);
    next = nullptr;
  }
}

void RunKernel::attend(const BlockRun& run, const Rows& rows, const Span& span, const Span* next,
                       const RowSums& sums, SpanScope* scope) const {
  const std::size_t dim = shape_.key_dim;
  const AttendSpan attend_span =
      attend_span_bf16_ != nullptr ? attend_span_bf16_ : attend_span_portable;
  const std::size_t end = rows.first + rows.count;
  for (std::size_t row = rows.first; row < end; row += kSpanRows) {
    const SpanQuery query{run.query + row * run.cache->row_bytes(), std::min(end - row, kSpanRows),
                          run.factor, run.soft_cap};
    attend_span(shape_, query, span, row == rows.first ? next : nullptr,
                {sums.maximum + row, sums.weight + row, sums.values + row * dim}, scope);
  }
}

}  // namespace nearkv

#include "blocks/block_run.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "nkv_abi.h"

namespace nearkv {

namespace {

/// For at most kSpanRows query rows.
void attend_rows(const SpanShape& shape, AttendSpan attend_span, const BlockRun& run,
                 const RowSums& sums) {
  const SpanQuery query{run.query, run.group, run.factor, run.soft_cap};
  Span span;
  Span next;
  std::size_t token = run.first_token;
  bool is_there = span_at(run, token, &span);
  while (is_there) {
    token += static_cast<std::size_t>(std::popcount(span.seen));
    is_there = span_at(run, token, &next);
    attend_span(shape, query, span, is_there ? &next : nullptr, sums);
    span = next;
  }
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
  span->seen = ~std::uint64_t{0} >> (kSpanTokens - (end - begin)) << (begin - span->token);
  return true;
}

void RunKernel::attend(const BlockRun& run, const RowSums& sums) const {
  const std::size_t dim = run.cache->head_dim;
  std::fill_n(sums.maximum, run.group, -std::numeric_limits<float>::infinity());
  std::fill_n(sums.weight, run.group, 0.0F);
  std::fill_n(sums.values, run.group * dim, 0.0F);
  for (std::size_t row = 0; row < run.group; row += kSpanRows) {
    BlockRun some = run;
    some.query += row * dim * nkv_element_bytes(run.cache->dtype);
    some.group = std::min(run.group - row, kSpanRows);
    const RowSums its{sums.maximum + row, sums.weight + row, sums.values + row * dim};
    if (attend_span_bf16_ != nullptr) {
      attend_rows(shape_, attend_span_bf16_, some, its);
      order_values_bf16(shape_, some.group, its.values);
    } else {
      attend_rows(shape_, attend_span_portable, some, its);
    }
  }
}

}  // namespace nearkv

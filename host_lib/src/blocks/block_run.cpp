#include "blocks/block_run.hpp"

#include <algorithm>

namespace nearkv {

bool span_at(const BlockRun& run, std::size_t token, BlockSpan* span) {
  if (token >= run.end_token) return false;
  const BlockCache& cache = *run.cache;
  const std::size_t index = token / cache.block_tokens;
  const auto block = static_cast<std::size_t>(run.table[index]);
  const std::size_t place =
      block * cache.block_stride_bytes + run.kv_head * cache.head_stride_bytes;
  span->block_keys = cache.keys + place;
  span->block_values = cache.values + place;
  span->begin = token % cache.block_tokens;
  span->token = span->begin / kSpanTokens * kSpanTokens;
  span->count = std::min<std::size_t>(kSpanTokens, cache.block_tokens - span->token);
  span->end = std::min(span->token + span->count, run.end_token - index * cache.block_tokens);
  return true;
}

}  // namespace nearkv

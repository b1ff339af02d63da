#include "blocks/block_run.hpp"

#include <algorithm>
#include <limits>

#include "nkv_abi.h"

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
  span->seen = ~std::uint64_t{0} >> (kSpanTokens - (span->end - span->begin))
                                        << (span->begin - span->token);
  return true;
}

AttendRows kernel_of(const BlockCache& cache) {
  const AttendRows fastest = attend_rows_bf16(cache);
  return fastest != nullptr ? fastest : attend_rows_portable;
}

void attend_run(AttendRows kernel, const BlockRun& run, const RunSums& sums) {
  const std::size_t dim = run.cache->head_dim;
  std::fill_n(sums.maximum, run.group, -std::numeric_limits<float>::infinity());
  std::fill_n(sums.weight, run.group, 0.0F);
  std::fill_n(sums.values, run.group * dim, 0.0F);
  for (std::size_t row = 0; row < run.group; row += kRunRows) {
    BlockRun some = run;
    some.query += row * dim * nkv_element_bytes(run.cache->dtype);
    some.group = std::min(run.group - row, kRunRows);
    kernel(some, {sums.maximum + row, sums.weight + row, sums.values + row * dim});
  }
}

}  // namespace nearkv

// The unit of work of a batch over blocks, and the kernels that do it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nearkv/block_attention.hpp"

namespace nearkv {

/// Tokens that a kernel takes at a time: their scores stay in registers and the first-level cache.
inline constexpr std::size_t kSpanTokens = 64;

/// Query rows that a kernel takes at a time.
inline constexpr std::size_t kRunRows = 16;

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

/// Softmax over a run's tokens, by row: what runs of one request merge by.
struct RunSums {
  float* maximum = nullptr;  ///< [group]: the largest base-2 logit.
  float* weight = nullptr;   ///< [group]: the sum of 2^(logit - maximum).
  float* values = nullptr;   ///< [group][head_dim]: V weighed so; 64-byte aligned.
};

/// Adds a run's tokens to sums over none yet, for at most kRunRows query rows.
using AttendRows = void (*)(const BlockRun& run, const RunSums& sums);

/// By Google Highway on any processor: every dtype and layout that BlockCache may have.
void attend_rows_portable(const BlockRun& run, const RunSums& sums);

/// By AVX-512's bf16 products; null where this machine or build has none, or for a cache of another
/// dtype or of heads that are no multiple of 32.
[[nodiscard]] AttendRows attend_rows_bf16(const BlockCache& cache);

/// The fastest kernel that this machine has for a cache.
[[nodiscard]] AttendRows kernel_of(const BlockCache& cache);

/// Attends to a run of any number of query rows. Sets all of `sums`.
void attend_run(AttendRows kernel, const BlockRun& run, const RunSums& sums);

/// One span of a run: tokens [token, token + count) of a block; those of [begin, end) are seen.
struct BlockSpan {
  const std::byte* block_keys = nullptr;    ///< Of the run's KV head.
  const std::byte* block_values = nullptr;  ///< Of the run's KV head.
  std::size_t token = 0;                    ///< In the block.
  std::size_t count = 0;                    ///< A multiple of 16.
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint64_t seen = 0;  ///< Bit t: token + t is seen.

  [[nodiscard]] bool is_whole() const { return begin == token && end == token + count; }
};

/// The span that begins with `token` of the run, and ends with its block or kSpanTokens; false from
/// the run's end on. The next one begins (span->end - span->begin) tokens later.
[[nodiscard]] bool span_at(const BlockRun& run, std::size_t token, BlockSpan* span);

}  // namespace nearkv

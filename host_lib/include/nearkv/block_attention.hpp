// Attention over the KV blocks of an engine, where they lie: a whole layer's batch in one call.
//
// An engine with a paged cache (vLLM's PagedAttention) keeps K and V in blocks of some tokens each,
// and a block table per request. On a CPU that memory is the memory near the compute, so nothing is
// copied: the kernels read the blocks in place, exactly, on the engine's own threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "nearkv/api.h"
#include "nearkv/status.hpp"
#include "nkv_abi.h"

namespace nearkv {

/// The order of elements in one KV head's part of a block.
enum class BlockLayout : std::uint8_t {
  kRows,          ///< K and V [block_tokens][head_dim].
  kChannelMajor,  ///< K [head_dim][block_tokens], V [block_tokens][head_dim].
  /// As AMX multiplies. K: for every 16 tokens [head_dim / 2][16 tokens][2 channels]; V: for every
  /// 16 channels [block_tokens / 2][16 channels][2 tokens].
  kTiles,
};

/// One layer's K and V. Strides are in bytes, the same for K and V.
struct BlockCache {
  const std::byte* keys = nullptr;    ///< Of block 0 and KV head 0.
  const std::byte* values = nullptr;  ///< Of block 0 and KV head 0.
  std::size_t blocks = 0;
  std::size_t block_stride_bytes = 0;
  std::size_t head_stride_bytes = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;      ///< Of K and V: a multiple of 16 up to NKV_MAX_HEAD_DIM.
  std::uint32_t block_tokens = 0;  ///< A multiple of 16; of 32 with kTiles.
  std::uint8_t dtype = 0;          ///< NKV_DTYPE_BF16, FP16 or FP32; kTiles: BF16.
  BlockLayout layout = BlockLayout::kRows;

  /// Of one token's K or V in one KV head.
  [[nodiscard]] std::size_t row_bytes() const {
    return std::size_t{head_dim} * nkv_element_bytes(dtype);
  }
};

class BlockCodes;

/// Attention that reads a part of the rows, by codes (block_codes.hpp).
struct BlockApproximation {
  BlockCodes* codes = nullptr;                  ///< Of the cache; null: all rows are read.
  std::uint8_t mode = NKV_ATTEND_MODE_BOUNDED;  ///< Or TAIL.
  float error = 0.05F;       ///< BOUNDED: of an output, relative to its length, up to 1.
  std::uint32_t top_k = 64;  ///< TAIL: tokens that are read exactly for each query head.
  /// All rows are read while that is faster, which is measured: few requests and cores need no
  /// fewer bytes. Answers then are exact, and those of a run are not those of another.
  bool if_faster = false;
};

/// How a layer attends.
struct BlockAttention {
  float scale = 1;
  float soft_cap = 0;        ///< Logits become soft_cap * tanh(logit / soft_cap); 0: they do not.
  std::uint32_t window = 0;  ///< Newest tokens that a query sees, its own included; 0: all.
  BlockApproximation approximation = {};
};

/// Queries and outputs of a step, [tokens][kv_heads * group][head_dim] in the cache's dtype. The
/// last two axes are contiguous; strides between tokens are in bytes.
struct BlockQueries {
  const std::byte* queries = nullptr;
  std::size_t query_stride_bytes = 0;
  std::byte* outputs = nullptr;
  std::size_t output_stride_bytes = 0;
  float* lse = nullptr;  ///< [tokens][kv_heads * group], natural logarithm; may be null.
  std::size_t tokens = 0;
  std::uint32_t group = 0;  ///< Query heads per KV head.
};

/// The blocks of each request, in the order of its tokens: request r's are
/// blocks[r * stride .. r * stride + columns).
struct BlockTable {
  const std::int32_t* blocks = nullptr;
  std::size_t columns = 0;
  std::size_t stride = 0;
};

/// Threads that a caller lends. `run` calls body(work) on up to `members` threads at once, one of
/// which may be the caller's, and returns when all calls have; each call shares out the work that
/// is left, so calls may be fewer than said. Without `run` the caller's thread does all.
struct ThreadTeam {
  using Body = void (*)(void* work);
  unsigned members = 1;
  void (*run)(Body body, void* work, unsigned members) = nullptr;
};

/// The team of the OpenMP runtime that this process has loaded, of the size that it would give the
/// calling thread. An engine's threads spin between its own parallel regions: those of a pool
/// beside them would wait for cores. Without such a runtime: one member.
[[nodiscard]] NEARKV_API ThreadTeam openmp_team();

/// The requests of a step, for all layers that share block tables. Made anew for each step; keeps
/// its buffers.
///
/// Thread safety: one call at a time.
class NEARKV_API BlockBatch {
 public:
  BlockBatch();
  BlockBatch(BlockBatch&&) noexcept;
  BlockBatch& operator=(BlockBatch&&) noexcept;
  ~BlockBatch();

  /// Request r has the queries of tokens [starts[r], starts[r + 1]) of the step, which are the last
  /// of its `lengths[r]` tokens; query i sees all tokens up to its own. K and V are read once for
  /// several of them. Requests with more than `max_queries` queries are left out: their outputs
  /// stay as they are. All is copied.
  ///
  /// kBadArgument: spans that do not fit, or a request with fewer tokens than queries.
  Status begin_step(std::span<const std::int32_t> starts, std::span<const std::int32_t> lengths,
                    BlockTable table, std::uint32_t block_tokens, std::uint32_t max_queries,
                    std::string* reason = nullptr);

  /// Queries that attend() answers.
  [[nodiscard]] std::size_t queries() const;

  /// O = softmax(scale * q K) V and its LSE for all queries of the batch, over `team`'s threads.
  /// Products are of the rows as they are, summed in binary32; results do not depend on the number
  /// of threads by more than the rounding of those sums. What lies behind a request's last token is
  /// not looked at. An element that is not finite spreads as in IEEE arithmetic, into outputs of
  /// that request and KV head alone.
  ///
  /// With codes, a query that sees kLeastApproximateTokens (pool.hpp) or more is answered by them
  /// as a pool answers it in that mode: BOUNDED estimates its error, and TAIL promises none. Codes
  /// are not asked where there is a soft cap, or where the query or a row that it sees holds an
  /// element that is not finite. No bit of these answers depends on the number of threads.
  ///
  /// kBadArgument: a shape that does not fit. kUnsupported: a dtype, head or block size that there
  /// is no kernel for. kBadPage: the block table names a block beyond the cache. kOutOfMemory.
  /// Nothing is written then, unless memory ran out for attention by codes.
  Status attend(const BlockCache& cache, const BlockAttention& attention,
                const BlockQueries& queries, const ThreadTeam& team, std::string* reason = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nearkv

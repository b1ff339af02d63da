// Codes beside an engine's blocks: attention over them that reads a part of their rows.
//
// Codes are a short form of K and V (emulator/model/ARITHMETIC.md, section 11), a quarter of their
// bytes in bfloat16. A sequence's long past is attended to by codes, and by those rows that they
// point to, which are read where the engine has them. No row is copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "nearkv/api.h"
#include "nearkv/block_attention.hpp"
#include "nearkv/status.hpp"

namespace nearkv {

class CodePages;

/// Codes of one layer's cache. 64 tokens of a block that are all written have codes of their own
/// for each KV head, which are made when a query first attends to them by codes and belong to
/// the block: requests that share it share them. The newest tokens, fewer than 64, have none and
/// are read exactly.
///
/// There are no checksums, neither of the engine's rows nor of codes: damage to either is not
/// found.
///
/// Thread safety: one call at a time, those of a BlockBatch that attends by it included.
class NEARKV_API BlockCodes {
 public:
  /// What attend() has done by codes since they were created. A query counts once per KV head.
  struct Counts {
    std::uint64_t pages = 0;         ///< Made: 64 tokens of a KV head each.
    std::uint64_t approximate = 0;   ///< Queries that were answered by codes,
    std::uint64_t exact = 0;         ///< and those for which codes were no use: all was read.
    std::uint64_t exact_calls = 0;   ///< Of attend(), which took all rows since that was faster.
    std::uint64_t read_bytes = 0;    ///< For all queries but those of exact calls,
    std::uint64_t cached_bytes = 0;  ///< of so many bytes of K and V.
  };

  /// For a cache that stays where it is, kRows in NKV_DTYPE_BF16 with blocks of a multiple of 64
  /// tokens. `gains` of K [kv_heads][head_dim], in sixteenths of octaves (section 11.2), or empty
  /// for none. Memory is taken as codes are made, and kept.
  ///
  /// kUnsupported: another kind of cache. kBadArgument: gains of another shape. kOutOfMemory.
  static Status create(const BlockCache& cache, std::span<const std::int8_t> gains,
                       std::unique_ptr<BlockCodes>* codes, std::string* reason = nullptr);

  ~BlockCodes();

  /// Rows at `slots` are written or about to be: what codes say of them holds no more. Slot
  /// block * block_tokens + place; those that are negative or beyond the cache mean nothing. To be
  /// called for every write before the next attend().
  void forget(std::span<const std::int64_t> slots);

  /// Gains of all codes from now on; those that there are hold no more. kBadArgument: of another
  /// shape than create() takes.
  Status set_gains(std::span<const std::int8_t> gains);

  [[nodiscard]] Counts counts() const;

  /// What codes take when all blocks have them, beside the cache.
  [[nodiscard]] std::size_t most_bytes() const;

  /// Of the library itself.
  [[nodiscard]] CodePages& pages() { return *pages_; }

 private:
  explicit BlockCodes(std::unique_ptr<CodePages> pages);

  std::unique_ptr<CodePages> pages_;
};

/// Rows of new tokens, [tokens][kv_heads][head_dim] in a cache's dtype. The last two axes are
/// contiguous; strides between tokens are in bytes.
struct NewRows {
  const std::byte* keys = nullptr;
  std::size_t key_stride_bytes = 0;
  const std::byte* values = nullptr;
  std::size_t value_stride_bytes = 0;
};

/// Copies the rows of new tokens to their slots, as BlockCodes::forget() has them, in a cache of
/// kRows; `keys` and `values` are its own pointers, to write through. Negative slots are left out.
/// One thread.
///
/// kUnsupported: another layout. kBadArgument: a slot beyond the cache; nothing is written.
[[nodiscard]] NEARKV_API Status store_rows(const BlockCache& cache, std::byte* keys,
                                           std::byte* values, const NewRows& rows,
                                           std::span<const std::int64_t> slots);

}  // namespace nearkv

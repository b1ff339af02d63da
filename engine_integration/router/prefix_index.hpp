// Which workers have which blocks: told by events, asked by every request.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "block_table.hpp"
#include "memory_budget.hpp"
#include "nearkv/status.hpp"
#include "prefix_match.hpp"
#include "reader_epochs.hpp"
#include "residency.hpp"
#include "worker_set.hpp"

namespace nearkv::router {

/// What was told of blocks and could not be taken up, since the beginning.
struct IndexCounters {
  std::uint64_t stored = 0;            ///< Events that a block is stored.
  std::uint64_t removed = 0;           ///< Events that it is gone.
  std::uint64_t unknown_removals = 0;  ///< Of those, of blocks that the worker did not have.
  std::uint64_t refused = 0;           ///< Blocks for which the limit left no memory.
};

/// A radix tree over block hashes, with its edges left out: engines hash blocks in chains, so that
/// a hash stands for the whole prefix that ends with the block, and the path to a node is the
/// request's own list of hashes. What is left of a node is one 16-byte slot: hash and holders.
///
/// Memory: 21 to 27 bytes a block with up to four holders; 2 bytes a holder and some 32 more where
/// there are more; a 32nd of it again where readers may still look. Never above the limit: what
/// does not fit is refused, and counted.
///
/// Thread safety: every call from any thread; events of one worker in their order from one thread
/// at a time. A match takes no lock and waits for no event. Events of different shards do not wait
/// for each other. A match beside events sees each block as it was at some moment of the match.
class PrefixIndex {
 public:
  explicit PrefixIndex(std::size_t limit_bytes);
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;
  ~PrefixIndex();

  /// The worker has these blocks in this tier too. kPoolFull: some were refused for the limit, the
  /// others are in.
  Status store(WorkerId worker, Tier tier, std::span<const std::uint64_t> hashes);

  /// The worker has them in this tier no more. Blocks that it did not have are counted.
  Status remove(WorkerId worker, Tier tier, std::span<const std::uint64_t> hashes);

  /// The worker has nothing in these tiers any more. Looks at every block: some 10 ns each.
  Status clear(WorkerId worker, TierMask tiers = kAllTiers);

  /// How far each worker below `workers` has the chain, with pools' blocks for all of them. Returns
  /// the number of blocks that were looked up.
  std::size_t match(std::span<const std::uint64_t> chain, const WorkerSet& pools,
                    std::size_t workers, PrefixMatch* match) const;

  /// All holders of one block, for those who look inside.
  [[nodiscard]] std::vector<Holder> holders(std::uint64_t hash) const;

  [[nodiscard]] std::size_t blocks() const;
  [[nodiscard]] std::size_t memory_bytes() const { return budget_.used_bytes(); }
  [[nodiscard]] std::size_t limit_bytes() const { return budget_.limit_bytes(); }
  [[nodiscard]] IndexCounters counters() const;

 private:
  static constexpr std::size_t kShards = 256;
  static constexpr std::size_t kInFlight = 16;  ///< Cache misses that a core can wait for at once.

  struct alignas(64) Shard {
    std::atomic<BlockTable*> table = nullptr;
    mutable std::mutex writer;
  };

  [[nodiscard]] static std::size_t shard_of(std::uint64_t place) { return place >> 56; }
  [[nodiscard]] bool change(WorkerId worker, TierMask removed, TierMask added, std::uint64_t hash);
  [[nodiscard]] bool put(Shard* shard, std::uint64_t hash, std::uint64_t place, HolderWord holders);
  [[nodiscard]] bool resize(Shard* shard);
  void shrink(Shard* shard);
  void retire(HolderWord word);
  void retire(std::unique_ptr<BlockTable> table);
  void free_retired();

  std::unique_ptr<std::array<Shard, kShards>> shards_;
  MemoryBudget budget_;
  mutable ReaderEpochs epochs_;
  std::mutex retired_mutex_;
  std::size_t retired_bytes_ = 0;
  std::vector<HolderWord> retired_lists_;
  std::vector<std::unique_ptr<BlockTable>> retired_tables_;
  std::atomic<std::uint64_t> stored_ = 0;
  std::atomic<std::uint64_t> removed_ = 0;
  std::atomic<std::uint64_t> unknown_removals_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;
};

}  // namespace nearkv::router

// Which blocks of a token sequence are here: longest prefixes, in one call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "object/fingerprint_table.hpp"
#include "object/prefix_runs.hpp"
#include "object/reader_slots.hpp"

namespace nearkv {

/// A radix tree over blocks. Engines hash blocks in chains, so a block's fingerprint stands for all
/// of the prefix that ends with it, and it has one parent. Blocks come and go in any order: one
/// that is missing between others leaves a hole, which costs what the block cost and ends a match;
/// holes without blocks behind them are dropped.
///
/// Fingerprints of different blocks may be equal, however improbable that is: the later one is then
/// refused, or found in the other's place. Compare the keys of the records that are returned.
///
/// Memory: 12 bytes per block for the run that it is in, 8.9 to 10.7 to find it, and some 60 to 90
/// per run; a run ends at a fork and at 128 blocks.
///
/// Thread safety: every call from any thread. Readers share no cache line with readers on other
/// cores. A writer waits for the readers there are and stops all for its few hundred nanoseconds:
/// matches are reads of many lines, which optimistic readers would have to repeat whole.
class PrefixTree {
 public:
  static constexpr std::uint32_t kNoRecord = FingerprintTable::kNone;

  struct Block {
    std::uint64_t fingerprint = 0;
    std::optional<std::uint64_t> parent;  ///< None: a chain begins with it.
    std::uint32_t record = kNoRecord;
  };

  /// Adds a block, or gives one that is there another record. Parents may come later than their
  /// children. False, and nothing changed, if the block is there under another parent, or if its
  /// parent descends from it. After std::bad_alloc the tree must be built anew.
  [[nodiscard]] bool insert(const Block& block);

  /// As many inserts into an empty tree, in a third of the time. Returns the places in `blocks` of
  /// those that were refused: repeated ones, and those that descend from themselves.
  [[nodiscard]] std::vector<std::uint32_t> load(std::span<const Block> blocks);

  /// Puts one record in the place of another. False: the block is not here with that one.
  bool replace(std::uint64_t fingerprint, std::uint32_t from, std::uint32_t to);

  /// Removes a block and returns its record; what descends from it stays. None: it is not there.
  std::optional<std::uint32_t> erase(std::uint64_t fingerprint);

  /// How many leading blocks of `chain` are here; their records are written to the front of
  /// `records`, which must be as long as the chain. The chain may begin anywhere, because its first
  /// fingerprint stands for what precedes it. Then hold(first records) is called while no block can
  /// be erased, to pin what was found; hold must not call the tree.
  template <typename Hold>
  std::size_t longest_match(std::span<const std::uint64_t> chain, std::span<std::uint32_t> records,
                            Hold hold) const {
    const auto lock = lock_.read();
    const std::size_t matched = match(chain, records);
    hold(records.first(matched));
    return matched;
  }
  std::size_t longest_match(std::span<const std::uint64_t> chain,
                            std::span<std::uint32_t> records) const;

  [[nodiscard]] std::optional<std::uint32_t> find(std::uint64_t fingerprint) const;

  /// Whether a block is another one, or comes before it in its chain.
  [[nodiscard]] bool leads_to(std::uint64_t fingerprint, std::uint64_t later) const;

  /// Direct children that are here or have descendants that are. 0: a leaf, or unknown. Evict
  /// leaves first: blocks behind a hole can no longer be matched from the front.
  [[nodiscard]] std::size_t children(std::uint64_t fingerprint) const;

  /// Records of the direct children that are here.
  [[nodiscard]] std::vector<std::uint32_t> children_of(std::uint64_t fingerprint) const;

  /// Records of all that descends from a block, not its own, parents before their children.
  [[nodiscard]] std::vector<std::uint32_t> descendants(std::uint64_t fingerprint) const;

  struct Usage {
    std::size_t blocks = 0;
    std::size_t holes = 0;
    std::size_t runs = 0;
    std::size_t memory_bytes = 0;
  };
  [[nodiscard]] Usage usage() const;

 private:
  static constexpr std::size_t kShards = 256;  ///< Of the index: each grows alone, and briefly.

  struct Place {
    std::uint32_t run = PrefixRuns::kNone;
    std::size_t offset = 0;
  };

  [[nodiscard]] static std::size_t shard_of(std::uint64_t fingerprint) { return fingerprint >> 56; }
  [[nodiscard]] std::optional<Place> locate(std::uint64_t fingerprint) const;
  [[nodiscard]] std::optional<std::uint32_t> child(std::uint32_t run,
                                                   std::uint64_t fingerprint) const;
  [[nodiscard]] std::size_t match(std::span<const std::uint64_t> chain,
                                  std::span<std::uint32_t> records) const;

  void reindex(std::span<const std::uint64_t> fingerprints, std::uint32_t from, std::uint32_t to);
  void add(std::uint32_t run, std::uint64_t fingerprint, std::uint32_t record);
  [[nodiscard]] bool place_under(const Place& place, std::optional<std::uint64_t> parent);
  [[nodiscard]] bool descends(std::uint32_t run, std::uint32_t from) const;
  std::uint32_t place_hole(std::uint64_t fingerprint);
  std::uint32_t end_run_after(const Place& place);
  void merge_child(std::uint32_t run);
  void trim(std::uint32_t run);

  friend class PrefixTreeLoad;

  std::array<FingerprintTable, kShards> index_;  ///< Fingerprints to runs.
  PrefixRuns runs_;
  std::size_t blocks_ = 0;
  std::size_t holes_ = 0;
  mutable ReaderSlots lock_;
};

}  // namespace nearkv

// Runs of consecutive blocks, and the tree that they form.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace nearkv {

/// The nodes of a PrefixTree: each a run of blocks of which every one but the last has one child,
/// the next. Numbers of runs stay valid until release. Knows nothing of where a fingerprint is.
class PrefixRuns {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::uint32_t kRoot = kNone;         ///< As a parent: the chain begins here.
  static constexpr std::uint32_t kUnknown = kNone - 1;  ///< As a parent: not told yet.
  static constexpr std::uint32_t kMostRuns = kNone - 1;
  /// Bounds what a fork, a merge or a search for a block inside its run costs.
  static constexpr std::uint32_t kMostBlocks = 128;

  /// 32 bytes, of which two share a cache line.
  struct Run {
    std::unique_ptr<std::byte[]> blocks;  ///< `capacity` fingerprints, then as many records.
    std::uint32_t parent = kUnknown;
    std::uint32_t first_child = kNone;
    std::uint32_t next_sibling = kNone;
    std::uint32_t previous_sibling = kNone;
    std::uint32_t children = 0;
    std::uint16_t count = 0;
    std::uint16_t capacity = 0;
  };

  [[nodiscard]] Run& operator[](std::uint32_t run) { return pages_[run / kPage][run % kPage]; }
  [[nodiscard]] const Run& operator[](std::uint32_t run) const {
    return pages_[run / kPage][run % kPage];
  }

  [[nodiscard]] static std::span<std::uint64_t> fingerprints(const Run& run) {
    return {reinterpret_cast<std::uint64_t*>(run.blocks.get()), run.count};
  }
  /// PrefixTree::kNoRecord where a block is missing.
  [[nodiscard]] static std::span<std::uint32_t> records(const Run& run) {
    return {
        reinterpret_cast<std::uint32_t*>(run.blocks.get() + run.capacity * sizeof(std::uint64_t)),
        run.count};
  }

  /// An empty run with room for `blocks`.
  [[nodiscard]] std::uint32_t create(std::uint32_t parent, std::size_t blocks);
  /// Gives back a run without parent and children, with its blocks.
  void release(std::uint32_t run);

  void push_back(std::uint32_t run, std::uint64_t fingerprint, std::uint32_t record);
  /// Appends, or puts in front, the blocks of another run from `begin` to `end`.
  void append(std::uint32_t run, const Run& from, std::size_t begin, std::size_t end);
  void prepend(std::uint32_t run, const Run& from);
  /// Removes blocks at the end, or at the beginning, and memory that is then too much.
  void truncate(std::uint32_t run, std::size_t blocks);
  void remove_front(std::uint32_t run, std::size_t blocks);

  /// Makes `child` a child of `parent`, which may be kRoot or kUnknown.
  void link(std::uint32_t parent, std::uint32_t child);
  void unlink(std::uint32_t child);
  /// Puts `heir`, which has no parent, where `run` is among its siblings; `run` has none then.
  void take_place(std::uint32_t run, std::uint32_t heir);
  /// Gives the children of `run` to `heir`, which has none. Takes time for each.
  void take_children(std::uint32_t run, std::uint32_t heir);

  [[nodiscard]] static bool is_run(std::uint32_t number) { return number < kMostRuns; }
  [[nodiscard]] std::size_t runs() const { return runs_; }
  /// With what the heap needs for itself.
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  static constexpr std::size_t kPage = 4096;

  void resize(Run& run, std::size_t blocks);

  std::vector<std::unique_ptr<Run[]>> pages_;  ///< Growing never moves a run.
  std::uint32_t first_free_ = kNone;           ///< Linked by next_sibling.
  std::uint32_t created_ = 0;
  std::size_t runs_ = 0;
  std::size_t block_bytes_ = 0;
};

}  // namespace nearkv

// Entries brought into the order of their shards.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace nearkv {

/// What a bulk load does first: filling one shard after the other stays in the cache, where filling
/// them in turns would miss it with every entry.
template <typename Kept, std::size_t kShards>
class ShardOrder {
 public:
  /// keep(entry, its number) of all entries, those of which shard_of(entry) is 0 first, else in
  /// their present order.
  template <typename Entries, typename ShardOf, typename Keep>
  ShardOrder(const Entries& entries, ShardOf shard_of, Keep keep)
      : kept_(std::make_unique_for_overwrite<Kept[]>(entries.size())) {
    for (const auto& entry : entries) ++begin_[shard_of(entry) + 1];
    for (std::size_t i = 0; i < kShards; ++i) begin_[i + 1] += begin_[i];
    std::array<std::size_t, kShards + 1> next = begin_;
    std::uint32_t number = 0;
    for (const auto& entry : entries) kept_[next[shard_of(entry)]++] = keep(entry, number++);
  }

  [[nodiscard]] std::span<const Kept> of(std::size_t shard) const {
    return {kept_.get() + begin_[shard], begin_[shard + 1] - begin_[shard]};
  }

 private:
  std::array<std::size_t, kShards + 1> begin_{};
  std::unique_ptr<Kept[]> kept_;
};

}  // namespace nearkv

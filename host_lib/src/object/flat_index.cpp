#include "object/flat_index.hpp"

#include "object/shard_order.hpp"

namespace nearkv {

std::vector<std::uint32_t> FlatIndex::load(std::span<const Entry> entries,
                                           const SameKey& same_key) {
  struct Loaded {
    std::uint32_t tag;
    std::uint32_t record;
  };
  const ShardOrder<Loaded, kShards> order(
      entries, [](const Entry& entry) { return shard_of(entry.fingerprint); },
      [](const Entry& entry, std::uint32_t) {
        return Loaded{FingerprintTable::tag(entry.fingerprint), entry.record};
      });
  std::vector<std::uint32_t> replaced;
  for (std::size_t i = 0; i < kShards; ++i) {
    FingerprintTable& table = shards_[i].table;
    table.reserve(order.of(i).size());
    for (const Loaded& loaded : order.of(i)) {
      std::uint32_t* const earlier = table.find(loaded.tag, [&](std::uint32_t record) {
        return same_key && same_key(record, loaded.record);
      });
      if (earlier != nullptr) {
        replaced.push_back(std::exchange(*earlier, loaded.record));
      } else {
        table.insert(loaded.tag, loaded.record);
      }
    }
  }
  return replaced;
}

std::size_t FlatIndex::size() const {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < kShards; ++i) {
    const std::shared_lock lock(shards_[i].mutex);
    sum += shards_[i].table.size();
  }
  return sum;
}

std::size_t FlatIndex::memory_bytes() const {
  std::size_t sum = kShards * sizeof(Shard);
  for (std::size_t i = 0; i < kShards; ++i) {
    const std::shared_lock lock(shards_[i].mutex);
    sum += shards_[i].table.memory_bytes();
  }
  return sum;
}

}  // namespace nearkv

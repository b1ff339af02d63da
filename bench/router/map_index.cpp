#include "map_index.hpp"

#include <algorithm>
#include <mutex>

namespace nearkv::bench {

using router::Holder;
using router::mask_of;
using router::TierMask;

void MapIndex::store(router::WorkerId worker, router::Tier tier,
                     std::span<const std::uint64_t> hashes) {
  const std::unique_lock lock(mutex_);
  for (const std::uint64_t hash : hashes) {
    std::vector<Holder>& holders = holders_[hash];
    const auto found = std::ranges::find(holders, worker, &Holder::worker);
    if (found == holders.end()) {
      holders.push_back({worker, mask_of(tier)});
    } else {
      found->tiers |= mask_of(tier);
    }
  }
}

void MapIndex::remove(router::WorkerId worker, router::Tier tier,
                      std::span<const std::uint64_t> hashes) {
  const std::unique_lock lock(mutex_);
  for (const std::uint64_t hash : hashes) {
    const auto block = holders_.find(hash);
    if (block == holders_.end()) continue;
    const auto found = std::ranges::find(block->second, worker, &Holder::worker);
    if (found == block->second.end()) continue;
    found->tiers = static_cast<TierMask>(found->tiers & ~mask_of(tier));
    if (found->tiers == 0) block->second.erase(found);
    if (block->second.empty()) holders_.erase(block);
  }
}

std::size_t MapIndex::match(std::span<const std::uint64_t> chain, std::size_t workers,
                            router::PrefixMatch* match) const {
  match->begin(workers, chain.size());
  const std::shared_lock lock(mutex_);
  std::size_t looked_up = 0;
  while (looked_up < chain.size()) {
    const auto block = holders_.find(chain[looked_up++]);
    if (block != holders_.end()) {
      for (const Holder holder : block->second) match->add(holder);
    }
    if (!match->next()) break;
  }
  match->end();
  return looked_up;
}

}  // namespace nearkv::bench

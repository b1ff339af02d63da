#include "tiers.hpp"

#include <algorithm>
#include <utility>

#include "policy/policies.hpp"

namespace nearkv::traces {

Tier::Tier(TierConfig config, double block_bytes)
    : config_(std::move(config)),
      block_bytes_(block_bytes),
      capacity_blocks_(static_cast<std::uint64_t>(config_.capacity_bytes / block_bytes)),
      eviction_(make_lru(capacity_blocks_)),
      link_(config_.bytes_per_s, config_.latency_s) {}

void Tier::store(BlockHash hash) {
  if (const auto found = ids_.find(hash); found != ids_.end()) {
    eviction_->hit(found->second);
    return;
  }
  if (capacity_blocks_ == 0) return;
  ObjectId id = static_cast<ObjectId>(hashes_.size());
  if (ids_.size() >= capacity_blocks_) {
    id = *eviction_->victim([](ObjectId) { return true; });
    eviction_->erase(id, Removal::kEvicted);
    ids_.erase(hashes_[id]);
  } else {
    hashes_.push_back(hash);
  }
  hashes_[id] = hash;
  ids_.emplace(hash, id);
  eviction_->insert({.id = id, .fingerprint = hash, .bytes = 1});
  ++stored_blocks_;
}

Seconds Tier::duration_s(Seconds now_s, std::uint32_t blocks) const {
  return link_.duration_s(now_s, blocks * block_bytes_, blocks * config_.block_s);
}

Seconds Tier::load(Seconds now_s, std::uint32_t blocks) {
  return link_.transfer(now_s, blocks * block_bytes_, blocks * config_.block_s);
}

std::vector<std::uint32_t> TierStack::places(std::span<const BlockHash> hashes) const {
  std::vector<std::uint32_t> blocks(tiers_.size());
  for (const BlockHash hash : hashes) {
    const auto tier =
        std::ranges::find_if(tiers_, [hash](const auto& one) { return one->holds(hash); });
    if (tier == tiers_.end()) break;
    ++blocks[static_cast<std::size_t>(tier - tiers_.begin())];
  }
  return blocks;
}

scheduler::Loadable TierStack::find(std::span<const BlockHash> hashes, Seconds now_s) {
  scheduler::Loadable found;
  const auto blocks = places(hashes);
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    if (blocks[i] == 0) continue;
    found.blocks += blocks[i];
    found.duration_s = std::max(found.duration_s, tiers_[i]->duration_s(now_s, blocks[i]));
  }
  return found;
}

Seconds TierStack::load(std::span<const BlockHash> hashes, Seconds now_s) {
  Seconds arrived_s = now_s;
  const auto blocks = places(hashes);
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    if (blocks[i] > 0) arrived_s = std::max(arrived_s, tiers_[i]->load(now_s, blocks[i]));
  }
  store(hashes, now_s);
  return arrived_s;
}

void TierStack::store(std::span<const BlockHash> hashes, Seconds /*now_s*/) {
  for (const auto& tier : tiers_) {
    for (const BlockHash hash : hashes) tier->store(hash);
  }
}

}  // namespace nearkv::traces

#include "block_pool.hpp"

#include <utility>

namespace nearkv::scheduler {

BlockPool::BlockPool(std::uint32_t capacity_blocks, std::unique_ptr<EvictionPolicy> eviction)
    : capacity_blocks_(capacity_blocks), eviction_(std::move(eviction)) {}

std::uint32_t BlockPool::match(std::span<const BlockHash> hashes) const {
  std::uint32_t count = 0;
  while (count < hashes.size() && by_hash_.contains(hashes[count])) ++count;
  return count;
}

void BlockPool::pin_one(ObjectId id) {
  if (shared_[id].pins++ == 0) ++pinned_blocks_;
}

void BlockPool::pin(std::span<const BlockHash> hashes, std::uint32_t count,
                    std::vector<ObjectId>* blocks) {
  for (const BlockHash hash : hashes.first(count)) {
    const ObjectId id = by_hash_.find(hash)->second;
    pin_one(id);
    blocks->push_back(id);
  }
}

void BlockPool::unpin(std::vector<ObjectId>* blocks) {
  for (const ObjectId id : *blocks) {
    if (--shared_[id].pins == 0) --pinned_blocks_;
    eviction_->hit(id);
  }
  blocks->clear();
}

bool BlockPool::take(std::uint32_t count) {
  if (available_blocks() < count) return false;
  while (free_blocks() < count) {
    const auto victim = eviction_->victim([this](ObjectId id) { return shared_[id].pins == 0; });
    if (!victim) return false;
    eviction_->erase(*victim, Removal::kEvicted);
    by_hash_.erase(shared_[*victim].hash);
    unused_.push_back(*victim);
    --shared_blocks_;
  }
  private_blocks_ += count;
  return true;
}

void BlockPool::publish(BlockHash hash, std::vector<ObjectId>* blocks) {
  const auto [found, is_new] = by_hash_.try_emplace(hash, kNoObject);
  if (is_new) {
    if (unused_.empty()) {
      unused_.push_back(static_cast<ObjectId>(shared_.size()));
      shared_.emplace_back();
    }
    found->second = unused_.back();
    unused_.pop_back();
    shared_[found->second] = {.hash = hash, .pins = 0};
    ++shared_blocks_;
    eviction_->insert({.id = found->second,
                       .fingerprint = hash,
                       .bytes = 1,
                       .parent = blocks->empty() ? kNoObject : blocks->back()});
  }
  --private_blocks_;
  pin_one(found->second);
  blocks->push_back(found->second);
}

}  // namespace nearkv::scheduler

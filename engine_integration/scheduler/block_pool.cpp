#include "block_pool.hpp"

#include <utility>

namespace nearkv::scheduler {

BlockPool::BlockPool(std::uint32_t capacity_blocks, std::unique_ptr<EvictionPolicy> eviction)
    : capacity_blocks_(capacity_blocks), eviction_(std::move(eviction)) {}

std::uint32_t BlockPool::match(std::span<const BlockHash> hashes) const {
  const auto prefetch = [this](BlockHash hash) { shared_.prefetch(hash); };
  std::uint32_t count = 0;
  visit_ahead(hashes, prefetch, [&](BlockHash hash) {
    const bool is_held = shared_.find(hash) != kNoObject;
    count += is_held ? 1 : 0;
    return is_held;
  });
  return count;
}

void BlockPool::pin_one(ObjectId id) {
  if (pins_[id]++ == 0) ++pinned_blocks_;
}

void BlockPool::pin(std::span<const BlockHash> hashes, std::uint32_t count,
                    std::vector<ObjectId>* blocks) {
  for (const BlockHash hash : hashes.first(count)) {
    const ObjectId id = shared_.find(hash);
    pin_one(id);
    blocks->push_back(id);
  }
}

void BlockPool::unpin(std::vector<ObjectId>* blocks) {
  for (const ObjectId id : *blocks) {
    if (--pins_[id] == 0) --pinned_blocks_;
    eviction_->hit(id);
  }
  blocks->clear();
}

bool BlockPool::take(std::uint32_t count) {
  if (available_blocks() < count) return false;
  const Evictable is_unpinned = [this](ObjectId id) { return pins_[id] == 0; };
  while (free_blocks() < count) {
    const auto victim = eviction_->victim(is_unpinned);
    if (!victim) return false;
    eviction_->erase(*victim, Removal::kEvicted);
    shared_.remove(*victim);
  }
  private_blocks_ += count;
  return true;
}

void BlockPool::publish(std::span<const BlockHash> hashes, std::vector<ObjectId>* blocks) {
  const auto prefetch = [this](BlockHash hash) { shared_.prefetch(hash); };
  visit_ahead(hashes, prefetch, [&](BlockHash hash) {
    ObjectId id = shared_.find(hash);
    if (id == kNoObject) id = share(hash, blocks->empty() ? kNoObject : blocks->back());
    --private_blocks_;
    pin_one(id);
    blocks->push_back(id);
    return true;
  });
}

ObjectId BlockPool::share(BlockHash hash, ObjectId parent) {
  const ObjectId id = shared_.add(hash);
  if (id >= pins_.size()) pins_.resize(std::size_t{id} + 1);
  eviction_->insert({.id = id, .fingerprint = hash, .bytes = 1, .parent = parent});
  return id;
}

}  // namespace nearkv::scheduler

#include "tiers.hpp"

#include <algorithm>
#include <utility>

namespace nearkv::traces {

Tier::Tier(TierConfig config, double block_bytes)
    : config_(std::move(config)),
      block_bytes_(block_bytes),
      blocks_(static_cast<std::uint64_t>(config_.capacity_bytes / block_bytes)),
      link_(config_.bytes_per_s, config_.latency_s),
      write_link_(config_.write_bytes_per_s, config_.latency_s) {}

void Tier::store(std::span<const BlockHash> hashes) {
  const auto ask = [this](BlockHash hash) { prefetch(hash); };
  scheduler::visit_ahead(hashes, ask, [this](BlockHash hash) {
    stored_blocks_ += blocks_.use(hash) ? 1 : 0;
    return true;
  });
}

Seconds Tier::write(std::span<const BlockHash> hashes, Seconds now_s) {
  if (config_.write_bytes_per_s == 0) {
    store(hashes);
    return now_s;
  }
  settle(now_s);
  Write write;
  for (const BlockHash hash : hashes) {
    if (holds(hash)) {
      blocks_.use(hash);
    } else {
      write.hashes.push_back(hash);
    }
  }
  if (write.hashes.empty()) return now_s;
  const auto blocks = static_cast<double>(write.hashes.size());
  write.arrives_s = write_link_.transfer(now_s, blocks * block_bytes_, blocks * config_.block_s);
  writes_.push_back(std::move(write));
  return writes_.back().arrives_s;
}

void Tier::settle(Seconds now_s) {
  for (; !writes_.empty() && writes_.front().arrives_s <= now_s; writes_.pop_front()) {
    store(writes_.front().hashes);
  }
}

Seconds Tier::duration_s(Seconds now_s, std::uint32_t blocks) const {
  return link_.duration_s(now_s, blocks * block_bytes_, blocks * config_.block_s);
}

Seconds Tier::load(Seconds now_s, std::uint32_t blocks) {
  return link_.transfer(now_s, blocks * block_bytes_, blocks * config_.block_s);
}

std::span<const std::uint32_t> TierStack::places(std::span<const BlockHash> hashes, Seconds now_s) {
  std::uint64_t stored_blocks = 0;
  for (const auto& tier : tiers_) {
    tier->settle(now_s);
    stored_blocks += tier->stored_blocks();
  }
  const BlockHash last = hashes.empty() ? 0 : hashes.back();
  if (places_.length == hashes.size() && places_.last == last &&
      places_.stored_blocks == stored_blocks) {
    return places_.blocks;
  }
  places_.last = last;
  places_.length = hashes.size();
  places_.stored_blocks = stored_blocks;
  places_.blocks.assign(tiers_.size(), 0);
  const auto ask = [this](BlockHash hash) {
    for (const auto& tier : tiers_) tier->prefetch(hash);
  };
  scheduler::visit_ahead(hashes, ask, [this](BlockHash hash) {
    const auto tier =
        std::ranges::find_if(tiers_, [hash](const auto& one) { return one->holds(hash); });
    if (tier == tiers_.end()) return false;
    ++places_.blocks[static_cast<std::size_t>(tier - tiers_.begin())];
    return true;
  });
  return places_.blocks;
}

scheduler::Loadable TierStack::find(std::span<const BlockHash> hashes, Seconds now_s) {
  scheduler::Loadable found;
  const auto blocks = places(hashes, now_s);
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    if (blocks[i] == 0) continue;
    found.blocks += blocks[i];
    found.duration_s = std::max(found.duration_s, tiers_[i]->duration_s(now_s, blocks[i]));
  }
  return found;
}

Seconds TierStack::load(std::span<const BlockHash> hashes, Seconds now_s) {
  Seconds arrived_s = now_s;
  const auto blocks = places(hashes, now_s);
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    if (blocks[i] > 0) arrived_s = std::max(arrived_s, tiers_[i]->load(now_s, blocks[i]));
  }
  store(hashes, now_s);
  return arrived_s;
}

void TierStack::store(std::span<const BlockHash> hashes, Seconds now_s) {
  for (const auto& tier : tiers_) {
    const Seconds arrives_s = tier->write(hashes, now_s);
    if (tier->config().is_shared) written_s_ = std::max(written_s_, arrives_s);
  }
}

}  // namespace nearkv::traces

#include "policy/ghost_list.hpp"

#include <bit>

namespace nearkv {
namespace {

constexpr std::size_t kFirstSlots = 64;

}  // namespace

std::optional<Ghost> GhostList::add(const Ghost& ghost) {
  reserve_one();
  const std::optional<Ghost> replaced = take(ghost.fingerprint);
  const std::uint32_t index = free_;
  Node& node = nodes_[index];
  free_ = node.older;
  node = {ghost, kNone, newest_};
  if (newest_ != kNone) nodes_[newest_].newer = index;
  newest_ = index;
  if (oldest_ == kNone) oldest_ = index;
  slots_[slot_of(ghost.fingerprint)] = index;
  ++count_;
  bytes_ += ghost.bytes;
  return replaced;
}

std::optional<Ghost> GhostList::take(std::uint64_t fingerprint) {
  if (count_ == 0) return std::nullopt;
  const std::size_t slot = slot_of(fingerprint);
  const std::uint32_t index = slots_[slot];
  if (index == kNone) return std::nullopt;
  remove_slot(slot);
  Node& node = nodes_[index];
  (node.newer != kNone ? nodes_[node.newer].older : newest_) = node.older;
  (node.older != kNone ? nodes_[node.older].newer : oldest_) = node.newer;
  node.older = free_;
  free_ = index;
  --count_;
  bytes_ -= node.ghost.bytes;
  return node.ghost;
}

std::optional<Ghost> GhostList::take_oldest() {
  if (oldest_ == kNone) return std::nullopt;
  return take(nodes_[oldest_].ghost.fingerprint);
}

std::size_t GhostList::home_of(std::uint64_t fingerprint) const {
  // Fibonacci hashing: the top bits of the product, for fingerprints that are not well mixed.
  return (fingerprint * 0x9e3779b97f4a7c15ULL) >> (64 - std::bit_width(slots_.size() - 1));
}

std::size_t GhostList::slot_of(std::uint64_t fingerprint) const {
  std::size_t slot = home_of(fingerprint);
  while (slots_[slot] != kNone && nodes_[slots_[slot]].ghost.fingerprint != fingerprint) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

void GhostList::reserve_one() {
  if (2 * (count_ + 1) > slots_.size()) {
    std::vector<std::uint32_t> old(slots_.empty() ? kFirstSlots : 2 * slots_.size(), kNone);
    old.swap(slots_);
    for (const std::uint32_t index : old) {
      if (index != kNone) slots_[slot_of(nodes_[index].ghost.fingerprint)] = index;
    }
  }
  if (free_ != kNone) return;
  nodes_.emplace_back();
  free_ = static_cast<std::uint32_t>(nodes_.size() - 1);
}

void GhostList::remove_slot(std::size_t slot) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t next = (slot + 1) & mask; slots_[next] != kNone; next = (next + 1) & mask) {
    const std::size_t home = home_of(nodes_[slots_[next]].ghost.fingerprint);
    // It may fill the gap unless its search begins behind the gap.
    if (((next - home) & mask) < ((next - slot) & mask)) continue;
    slots_[slot] = slots_[next];
    slot = next;
  }
  slots_[slot] = kNone;
}

}  // namespace nearkv

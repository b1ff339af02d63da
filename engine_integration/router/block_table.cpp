#include "block_table.hpp"

namespace nearkv::router {

const BlockTable::Slot* BlockTable::slot_of(std::uint64_t hash, std::uint64_t place) const {
  for (std::size_t i = home(place);; i = i + 1 == slot_count_ ? 0 : i + 1) {
    const std::uint64_t there = slots_[i].hash.load(std::memory_order_acquire);
    if (there == hash) return &slots_[i];
    if (there == kNoHash) return nullptr;
  }
}

bool BlockTable::put(std::uint64_t hash, std::uint64_t place, HolderWord holders) {
  Slot* slot = const_cast<Slot*>(slot_of(hash, place));
  if (slot == nullptr) {
    if (holders.empty()) return true;
    if (used_ >= most()) return false;
    std::size_t i = home(place);
    while (slots_[i].hash.load(std::memory_order_relaxed) != kNoHash) {
      i = i + 1 == slot_count_ ? 0 : i + 1;
    }
    slots_[i].holders.store(holders.bits(), std::memory_order_relaxed);
    slots_[i].hash.store(hash, std::memory_order_release);
    ++used_;
    ++blocks_;
    return true;
  }
  const std::uint64_t before = slot->holders.exchange(holders.bits(), std::memory_order_seq_cst);
  if (before == 0 && !holders.empty()) ++blocks_;
  if (before != 0 && holders.empty()) --blocks_;
  return true;
}

}  // namespace nearkv::router

#include "object/fingerprint_table.hpp"

#include <algorithm>
#include <cstring>

namespace nearkv {
namespace {

constexpr std::size_t kFirstHomes = 32;
constexpr std::size_t kFirstSpill = 16;

}  // namespace

void FingerprintTable::rebuild(std::size_t homes, std::size_t spill) {
  FingerprintTable grown;
  while (true) {
    grown.homes_ = static_cast<std::uint32_t>(homes);
    grown.spill_ = static_cast<std::uint32_t>(spill);
    grown.slots_ = std::make_unique_for_overwrite<Slot[]>(homes + spill);
    std::size_t next = 0;
    bool fits = true;
    for (std::size_t i = 0; i < slot_count() && fits; ++i) {
      const Slot slot = slots_[i];
      if (slot.value == kNone) continue;
      for (const std::size_t at = grown.home(slot.tag); next < at; ++next) {
        grown.slots_[next] = {0, kNone};
      }
      fits = next + 1 < homes + spill;
      if (fits) grown.slots_[next++] = slot;
    }
    if (fits) {
      std::fill(&grown.slots_[next], &grown.slots_[homes + spill - 1] + 1, Slot{0, kNone});
      break;
    }
    spill *= 2;
  }
  grown.size_ = size_;
  *this = std::move(grown);
}

void FingerprintTable::reserve(std::size_t count) {
  const std::size_t homes = std::max(count + count / 8 + 1, kFirstHomes);
  if (homes > homes_) rebuild(homes, std::max<std::size_t>(kFirstSpill, spill_));
}

bool FingerprintTable::try_insert(std::uint32_t tag, std::uint32_t value) {
  Slot* place = &slots_[home(tag)];
  while (place->value != kNone && place->tag <= tag) ++place;
  Slot* empty = place;
  while (empty->value != kNone) ++empty;
  if (empty == &slots_[slot_count() - 1]) return false;
  if (empty != place) {  // In a table with room it mostly is, and a call costs more than the test.
    std::memmove(place + 1, place, static_cast<std::size_t>(empty - place) * sizeof(Slot));
  }
  *place = {tag, value};
  ++size_;
  return true;
}

void FingerprintTable::insert(std::uint32_t tag, std::uint32_t value) {
  if (size_ >= most()) {
    rebuild(std::max<std::size_t>(kFirstHomes, homes_ + homes_ / 5),
            std::max<std::size_t>(kFirstSpill, spill_));
  }
  while (!try_insert(tag, value)) rebuild(homes_, 2 * std::size_t{spill_});
}

void FingerprintTable::erase(const std::uint32_t* found) {
  const auto byte = reinterpret_cast<const std::byte*>(found) - offsetof(Slot, value);
  const auto at = static_cast<std::size_t>(
      (byte - reinterpret_cast<const std::byte*>(slots_.get())) / std::ptrdiff_t{sizeof(Slot)});
  std::size_t end = at + 1;
  while (slots_[end].value != kNone && home(slots_[end].tag) != end) ++end;
  if (end > at + 1) std::memmove(&slots_[at], &slots_[at + 1], (end - at - 1) * sizeof(Slot));
  slots_[end - 1].value = kNone;
  --size_;
}

}  // namespace nearkv

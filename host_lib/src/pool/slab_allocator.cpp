#include "pool/slab_allocator.hpp"

#include <algorithm>
#include <cstring>

#include "page/encode.hpp"

namespace nearkv {

SlabAllocator::SlabAllocator(std::span<std::byte> memory, SlabTable* table,
                             Persistence* persistence)
    : memory_(memory), table_(table), persistence_(persistence) {
  for (std::size_t i = 0; i < table_->size(); ++i) {
    const std::uint32_t use = table_->use(i);
    if (use == 0 || use == NKV_SLAB_OF_OBJECTS) continue;
    slabs_.emplace(i, Slab{use, 0, std::vector<bool>(table_->slab_bytes() / use)});
    with_room_[use].insert(i);
  }
}

std::uint32_t SlabAllocator::page_of(std::size_t slab, std::size_t slot) const {
  return static_cast<std::uint32_t>((table_->address(slab) + slot * slabs_.at(slab).slot_bytes) /
                                    NKV_PAGE_GRAIN_BYTES);
}

SlabAllocator::Place SlabAllocator::place_of(std::uint32_t page) const {
  const std::uint64_t offset = std::uint64_t{page} * NKV_PAGE_GRAIN_BYTES - table_->address(0);
  const auto slab = static_cast<std::size_t>(offset / table_->slab_bytes());
  return {slab,
          static_cast<std::size_t>(offset % table_->slab_bytes() / slabs_.at(slab).slot_bytes)};
}

std::span<std::byte> SlabAllocator::slot_at(std::uint32_t page) const {
  return memory_.subspan(std::uint64_t{page} * NKV_PAGE_GRAIN_BYTES, sizeof(nkv_page_header));
}

void SlabAllocator::retract(std::uint32_t page) { retract_page(slot_at(page), persistence_); }

bool SlabAllocator::cut_slab(std::uint32_t slot_bytes) {
  const std::optional<std::size_t> index = table_->reserve();
  if (!index) return false;
  const std::size_t slots = table_->slab_bytes() / slot_bytes;
  slabs_[*index] = {slot_bytes, 0, std::vector<bool>(slots)};
  // Whatever lay here before, an object that looks like a page included, is none once this is done.
  for (std::size_t slot = 0; slot < slots; ++slot) retract(page_of(*index, slot));
  persistence_->fence();
  table_->record(*index, slot_bytes);
  with_room_[slot_bytes].insert(*index);
  return true;
}

bool SlabAllocator::find_free(std::uint32_t slot_bytes, Place* place) {
  const std::set<std::size_t>& candidates = with_room_[slot_bytes];
  if (candidates.empty()) return false;
  const Slab& slab = slabs_.at(*candidates.begin());
  const auto free = std::ranges::find(slab.taken, false);
  *place = {*candidates.begin(), static_cast<std::size_t>(free - slab.taken.begin())};
  return true;
}

void SlabAllocator::take(const Place& place) {
  Slab& slab = slabs_.at(place.slab);
  slab.taken[place.slot] = true;
  ++slab.used;
  ++used_slots_;
  used_bytes_ += slab.slot_bytes;
  if (slab.used == slab.taken.size()) with_room_[slab.slot_bytes].erase(place.slab);
}

bool SlabAllocator::allocate(std::uint32_t bytes, std::size_t count, std::vector<Slot>* slots) {
  if (bytes > table_->slab_bytes()) return false;
  slots->clear();
  while (slots->size() < count) {
    Place place;
    if (find_free(bytes, &place)) {
      take(place);
      Slot slot{page_of(place.slab, place.slot), 0};
      nkv_page_header header{};
      std::memcpy(&header, slot_at(slot.page).data(), sizeof(header));
      slot.generation = static_cast<std::uint16_t>(header.generation + 1);
      slots->push_back(slot);
    } else if (!cut_slab(bytes)) {
      for (const Slot& slot : *slots) release(slot.page);
      slots->clear();
      return false;
    }
  }
  return true;
}

void SlabAllocator::release(std::uint32_t page) {
  const Place place = place_of(page);
  Slab& slab = slabs_.at(place.slab);
  if (!slab.taken[place.slot]) return;
  retract(page);
  persistence_->fence();
  slab.taken[place.slot] = false;
  --slab.used;
  --used_slots_;
  used_bytes_ -= slab.slot_bytes;
  with_room_[slab.slot_bytes].insert(place.slab);
  if (slab.used != 0) return;
  with_room_[slab.slot_bytes].erase(place.slab);
  slabs_.erase(place.slab);
  table_->give_back(place.slab);
}

void SlabAllocator::adopt(std::uint32_t page) { take(place_of(page)); }

void SlabAllocator::finish_adoption() {
  for (const auto& [index, slab] : slabs_) {
    for (std::size_t slot = 0; slot < slab.taken.size(); ++slot) {
      const std::span<std::byte> place = slot_at(page_of(index, slot));
      if (slab.taken[slot]) {
        // Published by a process that may have died before it wrote that back.
        persistence_->write_back(place.first(sizeof(std::uint64_t)));
      } else {
        retract_page(place, persistence_);
      }
    }
  }
  persistence_->fence();
  for (auto it = slabs_.begin(); it != slabs_.end();) {
    if (it->second.used != 0) {
      ++it;
      continue;
    }
    with_room_[it->second.slot_bytes].erase(it->first);
    table_->give_back(it->first);
    it = slabs_.erase(it);
  }
}

}  // namespace nearkv

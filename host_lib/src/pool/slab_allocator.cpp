#include "pool/slab_allocator.hpp"

#include <algorithm>
#include <cstring>

#include "page/encode.hpp"

namespace nearkv {

SlabAllocator::SlabAllocator(std::span<std::byte> memory, const nkv_pool_header& header)
    : memory_(memory),
      records_at_(header.slabs_at),
      data_at_(header.data_at),
      slab_bytes_(header.slab_bytes),
      slabs_(header.slabs) {
  for (std::size_t i = 0; i < slabs_.size(); ++i) {
    nkv_slab_record record{};
    std::memcpy(&record, memory_.data() + records_at_ + i * sizeof(record), sizeof(record));
    // A size that no pool writes counts as not cut: its pages, if any, are lost, not misread.
    const bool sane = record.slot_bytes >= sizeof(nkv_page_header) &&
                      record.slot_bytes <= slab_bytes_ &&
                      record.slot_bytes % NKV_PAGE_GRAIN_BYTES == 0;
    slabs_[i].slot_bytes = sane ? record.slot_bytes : 0;
    slabs_[i].taken.resize(slots_in(slabs_[i].slot_bytes));
  }
}

std::uint32_t SlabAllocator::page_of(std::size_t slab, std::size_t slot) const {
  return static_cast<std::uint32_t>(
      (data_at_ + slab * slab_bytes_ + slot * slabs_[slab].slot_bytes) / NKV_PAGE_GRAIN_BYTES);
}

SlabAllocator::Place SlabAllocator::place_of(std::uint32_t page) const {
  const std::uint64_t offset = std::uint64_t{page} * NKV_PAGE_GRAIN_BYTES - data_at_;
  const auto slab = static_cast<std::size_t>(offset / slab_bytes_);
  return {slab, static_cast<std::size_t>(offset % slab_bytes_ / slabs_[slab].slot_bytes)};
}

bool SlabAllocator::cut_slab(std::uint32_t slot_bytes) {
  for (std::size_t i = 0; i < slabs_.size(); ++i) {
    if (slabs_[i].slot_bytes != 0 && slabs_[i].used != 0) continue;
    if (slabs_[i].slot_bytes == slot_bytes) continue;
    // An empty slab of another size may be cut anew: all its slots have been retracted.
    slabs_[i].slot_bytes = slot_bytes;
    slabs_[i].taken.assign(slots_in(slot_bytes), false);
    for (std::size_t slot = 0; slot < slots_in(slot_bytes); ++slot) {
      retract_page(memory_.subspan(std::uint64_t{page_of(i, slot)} * NKV_PAGE_GRAIN_BYTES, 8));
    }
    const nkv_slab_record record{slot_bytes};
    std::memcpy(memory_.data() + records_at_ + i * sizeof(record), &record, sizeof(record));
    search_from_[slot_bytes] = std::min(search_from_[slot_bytes], i);
    return true;
  }
  return false;
}

bool SlabAllocator::find_free(std::uint32_t slot_bytes, Place* place) {
  for (std::size_t& i = search_from_[slot_bytes]; i < slabs_.size(); ++i) {
    Slab& slab = slabs_[i];
    if (slab.slot_bytes != slot_bytes || slab.used == slab.taken.size()) continue;
    const auto free = std::ranges::find(slab.taken, false);
    *place = {i, static_cast<std::size_t>(free - slab.taken.begin())};
    return true;
  }
  return false;
}

void SlabAllocator::take(const Place& place) {
  Slab& slab = slabs_[place.slab];
  slab.taken[place.slot] = true;
  ++slab.used;
  ++used_slots_;
  used_bytes_ += slab.slot_bytes;
}

bool SlabAllocator::allocate(std::uint32_t bytes, std::size_t count, std::vector<Slot>* slots) {
  if (bytes > slab_bytes_) return false;
  slots->clear();
  while (slots->size() < count) {
    Place place;
    if (find_free(bytes, &place)) {
      take(place);
      Slot slot{page_of(place.slab, place.slot), 0};
      nkv_page_header header{};
      std::memcpy(&header, memory_.data() + std::uint64_t{slot.page} * NKV_PAGE_GRAIN_BYTES,
                  sizeof(header));
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
  Slab& slab = slabs_[place.slab];
  if (!slab.taken[place.slot]) return;
  retract_page(memory_.subspan(std::uint64_t{page} * NKV_PAGE_GRAIN_BYTES, 8));
  slab.taken[place.slot] = false;
  --slab.used;
  --used_slots_;
  used_bytes_ -= slab.slot_bytes;
  std::size_t& from = search_from_[slab.slot_bytes];
  from = std::min(from, place.slab);
}

void SlabAllocator::adopt(std::uint32_t page) { take(place_of(page)); }

}  // namespace nearkv

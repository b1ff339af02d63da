// Page slots in a pool's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "nkv_abi.h"

namespace nearkv {

/// One page's place.
struct Slot {
  std::uint32_t page = 0;        ///< Address in PAGE_GRAIN_BYTES.
  std::uint16_t generation = 0;  ///< Of its present use.
};

/// Cuts slabs into slots of one size each. What a slab is cut into is recorded in device memory, so
/// that a restart finds headers where pages can start and nowhere else; all other state is kept
/// here and rebuilt.
class SlabAllocator {
 public:
  /// `memory` is all of the pool; the slab records in it are taken as they are.
  SlabAllocator(std::span<std::byte> memory, const nkv_pool_header& header);

  /// `count` slots of at least `bytes`, or none: false if there is no room.
  [[nodiscard]] bool allocate(std::uint32_t bytes, std::size_t count, std::vector<Slot>* slots);

  /// Makes the page unfindable and its slot free; entries that name it are stale from now on.
  void release(std::uint32_t page);

  /// During recovery: takes a slot whose page is to be kept.
  void adopt(std::uint32_t page);

  /// Calls visit(page, slot_bytes) for every slot there is.
  template <typename Visit>
  void for_each_slot(Visit visit) const {
    for (std::size_t slab = 0; slab < slabs_.size(); ++slab) {
      const std::uint32_t bytes = slabs_[slab].slot_bytes;
      for (std::size_t slot = 0; slot < slots_in(bytes); ++slot) visit(page_of(slab, slot), bytes);
    }
  }

  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }
  [[nodiscard]] std::uint64_t used_slots() const { return used_slots_; }

 private:
  struct Slab {
    std::uint32_t slot_bytes = 0;
    std::size_t used = 0;
    std::vector<bool> taken;
  };
  struct Place {
    std::size_t slab = 0;
    std::size_t slot = 0;
  };

  [[nodiscard]] std::size_t slots_in(std::uint32_t slot_bytes) const {
    return slot_bytes == 0 ? 0 : slab_bytes_ / slot_bytes;
  }
  [[nodiscard]] std::uint32_t page_of(std::size_t slab, std::size_t slot) const;
  [[nodiscard]] Place place_of(std::uint32_t page) const;
  [[nodiscard]] bool find_free(std::uint32_t slot_bytes, Place* place);
  bool cut_slab(std::uint32_t slot_bytes);
  void take(const Place& place);

  std::span<std::byte> memory_;
  std::uint64_t records_at_;
  std::uint64_t data_at_;
  std::uint32_t slab_bytes_;
  std::vector<Slab> slabs_;
  std::map<std::uint32_t, std::size_t>
      search_from_;  ///< Per slot size: slabs before this are full.
  std::uint64_t used_bytes_ = 0;
  std::uint64_t used_slots_ = 0;
};

}  // namespace nearkv

// Page slots in a pool's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "persist/persistence.hpp"
#include "pool/slab_table.hpp"

namespace nearkv {

/// One page's place.
struct Slot {
  std::uint32_t page = 0;        ///< Address in PAGE_GRAIN_BYTES.
  std::uint16_t generation = 0;  ///< Of its present use.
};

/// Cuts slabs into slots of one size each. What a slab is cut into stands in the slab table; all
/// other state is kept here and rebuilt. Slabs without pages go back to the table.
class SlabAllocator {
 public:
  /// `memory` is all of the pool; slabs that the table says hold pages are taken over.
  SlabAllocator(std::span<std::byte> memory, SlabTable* table, Persistence* persistence);

  /// `count` slots of at least `bytes`, or none: false if there is no room.
  [[nodiscard]] bool allocate(std::uint32_t bytes, std::size_t count, std::vector<Slot>* slots);

  /// Makes the page unfindable and its slot free; entries that name it are stale from now on.
  void release(std::uint32_t page);

  /// During recovery: takes a slot whose page is to be kept.
  void adopt(std::uint32_t page);

  /// After recovery: makes unfindable what was not adopted, and gives back the slabs of which
  /// nothing was. All that is durable, and the adopted pages are, when it returns.
  void finish_adoption();

  /// Calls visit(page, slot_bytes) for every slot there is.
  template <typename Visit>
  void for_each_slot(Visit visit) const {
    for (const auto& [index, slab] : slabs_) {
      for (std::size_t slot = 0; slot < slab.taken.size(); ++slot) {
        visit(page_of(index, slot), slab.slot_bytes);
      }
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

  [[nodiscard]] std::uint32_t page_of(std::size_t slab, std::size_t slot) const;
  [[nodiscard]] Place place_of(std::uint32_t page) const;
  [[nodiscard]] std::span<std::byte> slot_at(std::uint32_t page) const;
  [[nodiscard]] bool find_free(std::uint32_t slot_bytes, Place* place);
  bool cut_slab(std::uint32_t slot_bytes);
  void take(const Place& place);
  void retract(std::uint32_t page);

  std::span<std::byte> memory_;
  SlabTable* table_;
  Persistence* persistence_;
  std::map<std::size_t, Slab> slabs_;                         ///< By index in the table.
  std::map<std::uint32_t, std::set<std::size_t>> with_room_;  ///< Per slot size.
  std::uint64_t used_bytes_ = 0;
  std::uint64_t used_slots_ = 0;
};

}  // namespace nearkv

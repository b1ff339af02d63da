// Slabs of a pool for objects.
#pragma once

#include <cstdint>
#include <optional>

#include "object/extent_allocator.hpp"
#include "pool/slab_table.hpp"

namespace nearkv {

/// Takes slabs from a pool's table and records that they hold objects.
class ObjectSlabs final : public SlabSource {
 public:
  explicit ObjectSlabs(SlabTable* table) : table_(table) {}

  std::optional<std::uint32_t> take_slab() override {
    const std::optional<std::size_t> slab = table_->reserve();
    if (!slab) return std::nullopt;
    table_->record(*slab, NKV_SLAB_OF_OBJECTS);
    return static_cast<std::uint32_t>(*slab);
  }
  void return_slab(std::uint32_t slab) override { table_->give_back(slab); }

 private:
  SlabTable* table_;
};

}  // namespace nearkv

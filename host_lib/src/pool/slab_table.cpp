#include "pool/slab_table.hpp"

#include <atomic>
#include <cstring>

namespace nearkv {
namespace {

/// A use that no pool writes counts as free: what such a slab holds is lost, not misread.
bool is_use(std::uint32_t use, std::uint32_t slab_bytes) {
  if (use == NKV_SLAB_OF_OBJECTS) return true;
  return use >= sizeof(nkv_page_header) && use <= slab_bytes && use % NKV_PAGE_GRAIN_BYTES == 0;
}

}  // namespace

SlabTable::SlabTable(std::span<std::byte> memory, const nkv_pool_header& header,
                     Persistence* persistence)
    : memory_(memory),
      records_at_(header.slabs_at),
      data_at_(header.data_at),
      slab_bytes_(header.slab_bytes),
      persistence_(persistence),
      uses_(header.slabs) {
  for (std::size_t i = uses_.size(); i-- > 0;) {
    nkv_slab_record record{};
    std::memcpy(&record, memory_.data() + records_at_ + i * sizeof(record), sizeof(record));
    uses_[i] = is_use(record.slot_bytes, slab_bytes_) ? record.slot_bytes : 0;
    if (uses_[i] == 0) free_.push_back(static_cast<std::uint32_t>(i));
  }
}

std::uint32_t SlabTable::use(std::size_t slab) const {
  const std::scoped_lock lock(mutex_);
  return uses_[slab];
}

std::optional<std::size_t> SlabTable::reserve() {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) return std::nullopt;
  const std::size_t slab = free_.back();
  free_.pop_back();
  return slab;
}

void SlabTable::write(std::size_t slab, std::uint32_t use) {
  std::byte* const place = memory_.data() + records_at_ + slab * sizeof(nkv_slab_record);
  std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(place))
      .store(use, std::memory_order_release);
  persistence_->write_back({place, sizeof(use)});
  persistence_->fence();
}

void SlabTable::record(std::size_t slab, std::uint32_t use) {
  write(slab, use);
  const std::scoped_lock lock(mutex_);
  uses_[slab] = use;
}

void SlabTable::give_back(std::size_t slab) {
  write(slab, 0);
  const std::scoped_lock lock(mutex_);
  uses_[slab] = 0;
  free_.push_back(static_cast<std::uint32_t>(slab));
}

std::size_t SlabTable::free_slabs() const {
  const std::scoped_lock lock(mutex_);
  return free_.size();
}

}  // namespace nearkv

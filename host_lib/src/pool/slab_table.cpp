#include "pool/slab_table.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "page/checksum.hpp"

namespace nearkv {
namespace {

std::uint64_t word_of(std::uint32_t use) {
  return use | std::uint64_t{crc32c(std::as_bytes(std::span(&use, 1)))} << 32;
}

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
    uses_[i] = take_up(i);
    if (uses_[i] == 0) free_.push_back(static_cast<std::uint32_t>(i));
  }
}

/// What a record says; of two whole copies, the first.
std::uint32_t SlabTable::take_up(std::size_t slab) {
  std::array<std::uint64_t, 2> words{};
  std::memcpy(words.data(), memory_.data() + records_at_ + slab * sizeof(nkv_slab_record),
              sizeof(words));
  const auto whole = std::ranges::find_if(
      words, [](std::uint64_t word) { return word == word_of(static_cast<std::uint32_t>(word)); });
  std::uint32_t use = whole == words.end() ? 0 : static_cast<std::uint32_t>(*whole);
  if (!is_use(use, slab_bytes_)) use = 0;
  // Where they differ, the first may be in the caches only, left there by a process that died.
  if (words[0] != words[1] && persistence_ != nullptr) write(slab, use);
  return use;
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
  for (const std::size_t copy : {std::size_t{0}, offsetof(nkv_slab_record, copy_slot_bytes)}) {
    persistence_->publish(place + copy, word_of(use));
    persistence_->fence();
  }
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

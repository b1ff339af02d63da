#include "media/stand_in.hpp"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "page_bytes.hpp"

namespace nearkv {
namespace {

/// What the handler may look at: never freed. `end` is 0 while nobody has it, and set last.
struct Slot {
  std::atomic<bool> is_taken = false;
  std::atomic<bool> is_lost = false;
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;
};

std::array<Slot, StandIn::kMost> slots;

/// Whole before anybody sees it: another thread may be reading the page.
bool put_page(std::uintptr_t page, std::size_t bytes) {
  void* const fresh =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return false;
  std::memset(fresh, 0xFF, bytes);
  void* const place = reinterpret_cast<void*>(page);  // NOLINT(performance-no-int-to-ptr)
  return ::mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) != MAP_FAILED;
}

}  // namespace

StandIn::StandIn(std::span<std::byte> mapping) {
  (void)page_bytes();  // The handler must not be the first to ask.
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = slots[i];
    if (slot.is_taken.exchange(true)) continue;
    slot_ = i;
    slot.is_lost = false;
    slot.begin = reinterpret_cast<std::uintptr_t>(mapping.data());
    slot.end = slot.begin + mapping.size();
    return;
  }
}

StandIn::~StandIn() {
  if (slot_ == kMost) return;
  slots[slot_].end = 0;
  slots[slot_].is_taken = false;
}

bool StandIn::is_lost() const { return slot_ != kMost && slots[slot_].is_lost; }

bool StandIn::catch_fault(std::uintptr_t address) noexcept {
  for (Slot& slot : slots) {
    if (address >= slot.end || address < slot.begin) continue;
    const int error = errno;
    // Known before anybody can read a page that is not the device's.
    slot.is_lost = true;
    const bool is_put = put_page(address & ~(page_bytes() - 1), page_bytes());
    errno = error;
    return is_put;
  }
  return false;
}

}  // namespace nearkv

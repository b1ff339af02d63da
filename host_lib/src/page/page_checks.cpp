#include "page/page_checks.hpp"

#include <algorithm>
#include <new>

namespace nearkv {
namespace {

/// An entry's half that tells headers in one place apart.
std::uint64_t header_half(const nkv_page_header& header) {
  return std::uint64_t{header.crc_hot ^ (header.crc_cold << 1 | header.crc_cold >> 31)} << 32;
}

constexpr std::uint32_t kHalf =
    1U << 31;  ///< Of the times that there are: what is further off has passed.
constexpr std::uint64_t kHeaderMask = 0xFFFFFFFF00000000;

}  // namespace

PageChecks::PageChecks(std::span<const std::byte> memory, std::chrono::nanoseconds most_age)
    : memory_(memory.data()), most_age_(static_cast<std::uint32_t>(most_age / kTick)) {
  if (!are_kept()) return;
  // Zeros from the system, which are entries of pages that were never compared.
  entries_.reset(static_cast<Entry*>(std::calloc(memory.size() / kEntryBytes + 1, sizeof(Entry))));
  if (entries_ == nullptr) throw std::bad_alloc();
  begin_command();
  counts_from_ = now_;
}

void PageChecks::begin_command() {
  const auto ticks = std::chrono::steady_clock::now().time_since_epoch() / kTick;
  const auto now = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(ticks));
  // forget() may have moved on by a tick.
  if (now - counts_from_ < kHalf) now_ = now;
}

void PageChecks::forget() { now_ = counts_from_ = now_ + 1; }

bool PageChecks::holds(const std::byte* page, const nkv_page_header& header) const {
  if (!are_kept()) return false;
  const std::uint64_t entry = entry_of(page).load(std::memory_order_relaxed);
  const auto at = static_cast<std::uint32_t>(entry);
  if (at == 0 || (entry & kHeaderMask) != header_half(header)) return false;
  const std::uint32_t age = now_ - at;
  if (age >= most_age_ || age > now_ - counts_from_) return false;
  std::uint32_t oldest = oldest_.load(std::memory_order_relaxed);
  while (age > oldest && !oldest_.compare_exchange_weak(oldest, age)) {
  }
  return true;
}

void PageChecks::note(const std::byte* page, const nkv_page_header& header) {
  if (are_kept()) entry_of(page).store(header_half(header) | now_, std::memory_order_relaxed);
}

void PageChecks::drop(const std::byte* page) {
  if (are_kept()) entry_of(page).store(0, std::memory_order_relaxed);
}

}  // namespace nearkv

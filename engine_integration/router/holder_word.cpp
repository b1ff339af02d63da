#include "holder_word.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <new>

namespace nearkv::router {
namespace {

// A list is its count and then its holders, at an address whose low four bits are 0.
constexpr std::align_val_t kListAlignment{16};

std::size_t bytes_of_list(std::size_t holders) { return (1 + holders) * sizeof(std::uint16_t); }

}  // namespace

std::uint16_t* HolderWord::begin() const { return std::bit_cast<std::uint16_t*>(bits_); }

std::span<const std::uint16_t> HolderWord::list() const { return {begin() + 1, *begin()}; }

std::size_t HolderWord::list_bytes() const { return is_list() ? bytes_of_list(list().size()) : 0; }

TierMask HolderWord::tiers_of(WorkerId worker) const {
  TierMask tiers = 0;
  for_each([&](Holder holder) {
    if (holder.worker == worker) tiers = holder.tiers;
  });
  return tiers;
}

std::optional<HolderWord> HolderWord::with(Holder holder, MemoryBudget* budget) const {
  std::array<std::uint16_t, kMaxWorkers> holders;  // NOLINT: filled below, as far as it is read
  std::size_t count = 0;
  bool is_known = false;
  for_each([&](Holder each) {
    if (each.worker == holder.worker) {
      is_known = true;
      each.tiers = holder.tiers;
    }
    if (each.tiers != 0) holders[count++] = each.pack();
  });
  if (!is_known && holder.tiers != 0) holders[count++] = holder.pack();
  if (count <= kInline) {
    std::uint64_t bits = 0;
    for (std::size_t i = count; i-- > 0;) bits = bits << 16 | holders[i];
    return HolderWord(bits);
  }
  const auto purpose = is_known ? MemoryBudget::Purpose::kRearrange : MemoryBudget::Purpose::kGrow;
  if (!budget->take(bytes_of_list(count), purpose)) return std::nullopt;
  void* const memory = ::operator new(bytes_of_list(count), kListAlignment, std::nothrow);
  if (memory == nullptr) {
    budget->give_back(bytes_of_list(count));
    return std::nullopt;
  }
  auto* const list = static_cast<std::uint16_t*>(memory);
  *list = static_cast<std::uint16_t>(count);
  std::copy_n(holders.begin(), count, list + 1);
  return HolderWord(std::bit_cast<std::uint64_t>(list));
}

void HolderWord::free_list(MemoryBudget* budget) const {
  if (!is_list()) return;
  budget->give_back(list_bytes());
  ::operator delete(begin(), kListAlignment);
}

}  // namespace nearkv::router

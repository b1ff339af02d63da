// All holders of a block in one word that is read and replaced at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "memory_budget.hpp"
#include "residency.hpp"

namespace nearkv::router {

/// Up to four holders, 16 bits each, the first one lowest and never 0; or, low bits 0, the place of
/// a list of more. A list is never changed: a word with another list replaces the word, and the old
/// list is freed when no reader can have it. 0: nobody has the block.
class HolderWord {
 public:
  static constexpr std::size_t kInline = 4;

  constexpr HolderWord() = default;
  explicit constexpr HolderWord(std::uint64_t bits) : bits_(bits) {}

  [[nodiscard]] std::uint64_t bits() const { return bits_; }
  [[nodiscard]] bool empty() const { return bits_ == 0; }

  /// Calls visit(Holder) for each, in the order in which they came.
  template <typename Visit>
  void for_each(Visit visit) const {
    if (is_list()) {
      for (const std::uint16_t bits : list()) visit(Holder::unpack(bits));
    } else {
      for (std::uint64_t rest = bits_; rest != 0; rest >>= 16) {
        visit(Holder::unpack(static_cast<std::uint16_t>(rest)));
      }
    }
  }

  /// The tiers in which a worker has the block; 0: none.
  [[nodiscard]] TierMask tiers_of(WorkerId worker) const;

  /// The word in which the worker has these tiers, or with 0 is no holder. Takes the memory of a
  /// new list from `budget`; none where it has no room. This word is left as it is.
  [[nodiscard]] std::optional<HolderWord> with(Holder holder, MemoryBudget* budget) const;

  /// Of the list, if it is one.
  [[nodiscard]] std::size_t list_bytes() const;
  /// Frees the list, if it is one. Nobody may still read it.
  void free_list(MemoryBudget* budget) const;

 private:
  [[nodiscard]] bool is_list() const { return bits_ != 0 && (bits_ & kAllTiers) == 0; }
  [[nodiscard]] std::span<const std::uint16_t> list() const;
  [[nodiscard]] std::uint16_t* begin() const;

  std::uint64_t bits_ = 0;
};

}  // namespace nearkv::router

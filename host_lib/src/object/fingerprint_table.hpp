// Numbers by the low half of a fingerprint, in 8-byte slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace nearkv {

/// One shard of an index: open addressing in the order of the tags. Slots of one tag stand together
/// and a search ends at the first greater tag; a growing table is copied in one pass, since a tag's
/// home is proportional to it. 8.9 to 10.7 bytes per number once it has grown.
///
/// Tags need not be unique: whoever searches says which of the numbers under a tag is meant.
///
/// Thread safety: several readers or one writer.
class FingerprintTable {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};  ///< No number that can be stored.

  /// What is stored of a fingerprint; the rest chooses the shard.
  [[nodiscard]] static std::uint32_t tag(std::uint64_t fingerprint) {
    return static_cast<std::uint32_t>(fingerprint);
  }

  /// Asks for the memory that a search for the tag starts in.
  void prefetch(std::uint32_t tag) const {
    if (slots_) __builtin_prefetch(&slots_[home(tag)]);
  }

  /// The first number under `tag` for which match(number) holds, or nullptr. The pointer serves
  /// to change or erase it until the next insert or erase.
  template <typename Match>
  [[nodiscard]] std::uint32_t* find(std::uint32_t tag, Match&& match) {
    const FingerprintTable& self = *this;
    return const_cast<std::uint32_t*>(self.find(tag, match));
  }
  template <typename Match>
  [[nodiscard]] const std::uint32_t* find(std::uint32_t tag, Match&& match) const {
    if (!slots_) return nullptr;
    const Slot* slot = &slots_[home(tag)];
    while (slot->value != kNone && slot->tag < tag) ++slot;
    for (; slot->value != kNone && slot->tag == tag; ++slot) {
      if (match(slot->value)) return &slot->value;
    }
    return nullptr;
  }

  /// Adds a number, also beside others of its tag. std::bad_alloc leaves all as it was.
  void insert(std::uint32_t tag, std::uint32_t value);

  /// Removes what find returned.
  void erase(const std::uint32_t* found);

  /// Makes room for `count` numbers in all.
  void reserve(std::size_t count);

  /// Calls visit(number&) for each; visit may change it, but not to kNone.
  template <typename Visit>
  void for_each(Visit visit) {
    for (std::size_t i = 0; i < slot_count(); ++i) {
      if (slots_[i].value != kNone) visit(slots_[i].value);
    }
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t memory_bytes() const { return slot_count() * sizeof(Slot); }

 private:
  struct Slot {
    std::uint32_t tag;
    std::uint32_t value;
  };

  [[nodiscard]] std::size_t home(std::uint32_t tag) const {
    return static_cast<std::size_t>(std::uint64_t{tag} * homes_ >> 32);
  }
  [[nodiscard]] std::size_t slot_count() const { return slots_ ? homes_ + spill_ : 0; }
  [[nodiscard]] std::size_t most() const { return homes_ - homes_ / 10; }
  void rebuild(std::size_t homes, std::size_t spill);
  [[nodiscard]] bool try_insert(std::uint32_t tag, std::uint32_t value);

  std::unique_ptr<Slot[]> slots_;
  std::uint32_t homes_ = 0;  ///< Slots where a tag can be at home.
  std::uint32_t spill_ = 0;  ///< Slots behind them; the last stays empty and ends every search.
  std::size_t size_ = 0;
};

}  // namespace nearkv

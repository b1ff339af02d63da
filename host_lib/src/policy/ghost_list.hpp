// What a policy remembers of objects that it has evicted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace nearkv {

/// An evicted object.
struct Ghost {
  std::uint64_t fingerprint = 0;
  std::uint64_t placed_at = 0;
  std::uint32_t bytes = 0;
  std::uint8_t list = 0;
  std::uint8_t uses = 0;
};

/// Ghosts in the order of their eviction, found by fingerprint: 32 bytes each and 8 to 16 of
/// the table. Operations take constant time, amortised where the table grows.
class GhostList {
 public:
  /// Adds the newest ghost, in place of one with the same fingerprint, which it returns.
  std::optional<Ghost> add(const Ghost& ghost);

  /// Removes and returns the ghost of that fingerprint.
  std::optional<Ghost> take(std::uint64_t fingerprint);

  /// Removes and returns the ghost evicted first.
  std::optional<Ghost> take_oldest();

  /// Bytes that the ghosts' objects had.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;

  struct Node {
    Ghost ghost;
    std::uint32_t newer = kNone;
    std::uint32_t older = kNone;  ///< In a free node: the next free one.
  };

  [[nodiscard]] std::size_t home_of(std::uint64_t fingerprint) const;
  [[nodiscard]] std::size_t slot_of(std::uint64_t fingerprint) const;
  void reserve_one();
  void remove_slot(std::size_t slot);

  std::vector<Node> nodes_;
  std::vector<std::uint32_t> slots_;  ///< Open addressing by fingerprint; indices of nodes.
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint32_t newest_ = kNone;
  std::uint32_t oldest_ = kNone;
  std::uint32_t free_ = kNone;
};

}  // namespace nearkv

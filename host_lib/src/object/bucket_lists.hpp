// Members kept by a small number, found without a search.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace nearkv {

/// Lists of members, one per key in [0, keys). All calls take constant time, but for those that
/// look for a key: they read one bit per key.
class BucketLists {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// Members are the numbers below `members`; none is in a list yet.
  BucketLists(std::size_t keys, std::size_t members);

  void insert(std::uint32_t key, std::uint32_t member);
  /// `key` must be the member's.
  void remove(std::uint32_t key, std::uint32_t member);

  /// A member of a key in use.
  [[nodiscard]] std::uint32_t first(std::uint32_t key) const { return heads_[key]; }

  /// The least key in use that is not less than `key`.
  [[nodiscard]] std::optional<std::uint32_t> least(std::uint32_t key) const;
  /// The greatest key in use.
  [[nodiscard]] std::optional<std::uint32_t> greatest() const;

 private:
  struct Link {
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
  };

  std::vector<std::uint32_t> heads_;
  std::vector<std::uint64_t> used_;  ///< One bit per key.
  std::vector<Link> links_;
};

}  // namespace nearkv

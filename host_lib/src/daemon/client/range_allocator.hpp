// Ranges of an area, taken and given back.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace nearkv {

/// First fit, by offset; neighbours join when they are free. Thread safety: one thread at a time.
class RangeAllocator {
 public:
  explicit RangeAllocator(std::uint64_t bytes = 0) : bytes_(bytes), free_bytes_(bytes) {
    if (bytes != 0) free_.emplace(0, bytes);
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  [[nodiscard]] std::uint64_t free_bytes() const { return free_bytes_; }

  /// Offset of a free range; nothing if none is as long. Of 0 bytes: always.
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t bytes) {
    if (bytes == 0) return 0;
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      if (range->second < bytes) continue;
      const auto [offset, room] = *range;
      free_.erase(range);
      free_bytes_ -= bytes;
      if (room > bytes) free_.emplace(offset + bytes, room - bytes);
      return offset;
    }
    return std::nullopt;
  }

  /// Gives back what take() gave.
  void give_back(std::uint64_t offset, std::uint64_t bytes) {
    if (bytes == 0) return;
    free_bytes_ += bytes;
    auto next = free_.lower_bound(offset);
    if (next != free_.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    }
    free_.emplace_hint(next, offset, bytes);
  }

 private:
  std::uint64_t bytes_;
  std::uint64_t free_bytes_;
  std::map<std::uint64_t, std::uint64_t> free_;  ///< Offset to length.
};

}  // namespace nearkv

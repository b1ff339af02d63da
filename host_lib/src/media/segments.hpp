// Host memory in pieces, gone through as if it were one run of bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace nearkv {

/// A place in a list of segments. `Byte` is std::byte, or const std::byte for sources. Borrows the
/// list and the memory. Not thread safe.
template <typename Byte>
class SegmentCursor {
 public:
  SegmentCursor() = default;
  explicit SegmentCursor(std::span<const std::span<Byte>> segments) : segments_(segments) {
    for (const std::span<Byte> segment : segments) remaining_bytes_ += segment.size();
  }

  /// What is left in all segments together.
  [[nodiscard]] std::size_t remaining_bytes() const { return remaining_bytes_; }

  /// How many of the next bytes lie together; 0 only if nothing is left.
  [[nodiscard]] std::size_t contiguous_bytes() {
    skip_empty();
    return segments_.empty() ? 0 : segments_.front().size() - at_;
  }

  /// The next bytes that lie together, at most `most_bytes` of them, and steps past them. Empty
  /// only if nothing is left or nothing is asked for.
  std::span<Byte> next(std::size_t most_bytes) {
    const std::size_t bytes = std::min(contiguous_bytes(), most_bytes);
    if (bytes == 0) return {};
    const std::span<Byte> taken = segments_.front().subspan(at_, bytes);
    at_ += taken.size();
    remaining_bytes_ -= taken.size();
    return taken;
  }

 private:
  void skip_empty() {
    while (!segments_.empty() && at_ == segments_.front().size()) {
      segments_ = segments_.subspan(1);
      at_ = 0;
    }
  }

  std::span<const std::span<Byte>> segments_;
  std::size_t at_ = 0;
  std::size_t remaining_bytes_ = 0;
};

using SourceCursor = SegmentCursor<const std::byte>;
using TargetCursor = SegmentCursor<std::byte>;

}  // namespace nearkv

// Bytes on their way between host memory and a pool, whatever is done to them there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "media/checked_copy.hpp"
#include "media/segments.hpp"
#include "page/checksum.hpp"

namespace nearkv {

/// Gives bytes to a pool, in order, each once. A pool's fault may end give() anywhere (guarded());
/// the source is not used again then.
class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  /// Fills `to_pool`, as copy_in() does, and continues the checksum of what the pool holds then.
  virtual std::uint32_t give(std::span<std::byte> to_pool, std::uint32_t crc) = 0;
};

/// Takes bytes from a pool, in order, each once; faults as for a source.
class ByteSink {
 public:
  ByteSink() = default;
  ByteSink(const ByteSink&) = delete;
  ByteSink& operator=(const ByteSink&) = delete;
  virtual ~ByteSink() = default;

  /// Takes all of `from_pool` and continues its checksum.
  virtual std::uint32_t take(std::span<const std::byte> from_pool, std::uint32_t crc) = 0;
};

/// What a cursor's segments hold, which is at least as much as is asked for. Borrows the cursor.
class SegmentSource final : public ByteSource {
 public:
  explicit SegmentSource(SourceCursor* cursor) : cursor_(cursor) {}

  std::uint32_t give(std::span<std::byte> to_pool, std::uint32_t crc) override {
    return gather_in(to_pool, cursor_, crc);
  }

 private:
  SourceCursor* cursor_;
};

/// Into a cursor's segments, which have at least as much room. Borrows the cursor.
class SegmentSink final : public ByteSink {
 public:
  explicit SegmentSink(TargetCursor* cursor) : cursor_(cursor) {}

  std::uint32_t take(std::span<const std::byte> from_pool, std::uint32_t crc) override {
    return scatter_out(cursor_, from_pool, crc);
  }

 private:
  TargetCursor* cursor_;
};

/// Only the checksum matters.
class ChecksumSink final : public ByteSink {
 public:
  std::uint32_t take(std::span<const std::byte> from_pool, std::uint32_t crc) override {
    return crc32c(from_pool, crc);
  }
};

}  // namespace nearkv

// Objects' bytes: where they lie, and how they get there and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "media/segments.hpp"
#include "nearkv/status.hpp"
#include "object/extent_allocator.hpp"
#include "persist/persistence.hpp"

namespace nearkv {

/// Space of a tier, addressed by extents. Extents are the caller's own while it writes; several
/// may read them. Thread safety: all calls.
class Payload {
 public:
  Payload() = default;
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;
  virtual ~Payload() = default;

  /// Copies `bytes` of the source to byte `offset` of the extents and continues `crc` over them.
  /// Durable after the pool's next fence.
  virtual Status write(std::span<const Extent> extents, std::uint64_t offset, std::uint64_t bytes,
                       SourceCursor* source, std::uint32_t* crc) = 0;

  /// Copies `bytes` from byte `offset` of the extents to the target and continues `crc` over them.
  /// kPoison: the memory could not be read.
  virtual Status read(std::span<const Extent> extents, std::uint64_t offset, std::uint64_t bytes,
                      TargetCursor* target, std::uint32_t* crc) = 0;
};

/// Payload in a pool's own memory.
class MemoryPayload final : public Payload {
 public:
  MemoryPayload(std::span<std::byte> memory, Persistence* persistence)
      : memory_(memory), persistence_(persistence) {}

  Status write(std::span<const Extent> extents, std::uint64_t offset, std::uint64_t bytes,
               SourceCursor* source, std::uint32_t* crc) override;
  Status read(std::span<const Extent> extents, std::uint64_t offset, std::uint64_t bytes,
              TargetCursor* target, std::uint32_t* crc) override;

 private:
  std::span<std::byte> memory_;
  Persistence* persistence_;
};

}  // namespace nearkv

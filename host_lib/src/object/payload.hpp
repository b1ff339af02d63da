// Objects' bytes: where they lie, and how they get there and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "media/byte_streams.hpp"
#include "nearkv/status.hpp"
#include "object/extent_allocator.hpp"

namespace nearkv {

/// Bytes on their way into extents. They are taken when their turn comes, not before.
struct PayloadPiece {
  std::uint64_t bytes = 0;
  ByteSource* source = nullptr;
  std::uint32_t* crc = nullptr;  ///< Continued over the bytes.
};

/// Space of a tier, addressed by extents. Extents are the caller's own while it writes; several
/// may read them. Thread safety: all calls.
class Payload {
 public:
  Payload() = default;
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;
  virtual ~Payload() = default;

  /// Copies pieces one behind the other, from byte `offset` of the extents on. Durable after the
  /// pool's next fence. kPoolFull, kIoError, kPoison; kTimeout: the extents may still change, and
  /// are not to be used again. kUnsupported: this medium takes only what starts a grain.
  virtual Status write(std::span<const Extent> extents, std::uint64_t offset,
                       std::span<const PayloadPiece> pieces) = 0;

  /// Overwrites all of the extents with zeros; durable after the pool's next fence.
  virtual Status wipe(std::span<const Extent> extents) = 0;

  /// Gives `bytes` from byte `offset` of the extents to the sink and continues `crc` over them.
  /// kPoison: the medium could not give them.
  virtual Status read(std::span<const Extent> extents, std::uint64_t offset, std::uint64_t bytes,
                      ByteSink* sink, std::uint32_t* crc) = 0;
};

}  // namespace nearkv

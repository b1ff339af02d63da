// Payload in a pool's own memory.
#pragma once

#include "object/payload.hpp"
#include "persist/persistence.hpp"

namespace nearkv {

class MemoryPayload final : public Payload {
 public:
  /// `memory` is all of the pool and outlives this.
  MemoryPayload(std::span<std::byte> memory, Persistence* persistence)
      : memory_(memory), persistence_(persistence) {}

  Status write(std::span<const Extent> extents, std::uint64_t offset,
               std::span<const PayloadPiece> pieces) override;
  Status wipe(std::span<const Extent> extents) override;
  Status read(std::span<const Extent> extents, std::uint64_t offset, std::uint64_t bytes,
              ByteSink* sink, std::uint32_t* crc) override;

 private:
  std::span<std::byte> memory_;
  Persistence* persistence_;
};

}  // namespace nearkv

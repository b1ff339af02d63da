// One direction of a CXL link in 68-byte flits: when a message has arrived.
#pragma once

#include <cstdint>

namespace nearkv::fabric {

/// Since the start.
using Picoseconds = std::uint64_t;

inline constexpr Picoseconds kNanosecond = 1000;

struct LinkShape {
  unsigned lanes = 16;
  unsigned gigatransfers = 32;  ///< A lane's, in a second.

  /// 64 bytes in four slots, two of checksum, two that name the protocol.
  [[nodiscard]] Picoseconds flit() const;
};

/// Messages of CXL.mem, in half slots of 8 bytes: headers that share a slot take half of it.
enum MessageHalves : unsigned {
  kRequestHalves = 2,       ///< M2S Req: a read.
  kWriteHalves = 2 + 8,     ///< M2S RwD, with a line.
  kReadDataHalves = 1 + 8,  ///< S2M DRS, with a line; two headers to a slot.
  kWrittenHalves = 1,       ///< S2M NDR.
};

/// Flits go back to back while there is something to send; one that is begun goes, full or not.
/// Left out: which headers may stand in which slot, retries, and flits of credits alone.
class LinkDirection {
 public:
  explicit LinkDirection(const LinkShape& shape) : flit_(shape.flit()) {}

  /// Takes a message, behind those before; when the flit with its end has arrived. `now` never
  /// goes back.
  Picoseconds send(Picoseconds now, unsigned halves);

 private:
  Picoseconds flit_;
  Picoseconds run_start_ = 0;  // Of flits that go back to back.
  std::uint64_t run_halves_ = 0;
};

}  // namespace nearkv::fabric

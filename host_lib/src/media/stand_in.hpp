// Memory that stands in for a mapping whose device has gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "media/guarded.hpp"

namespace nearkv {

/// While it exists, touching `mapping` does not end the process when the kernel has taken away what
/// lay behind it (SIGBUS, BUS_ADRERR): the page becomes private memory of ones, as everything reads
/// that is no longer there, and is_lost() is true from then on. So who reads and then sees
/// !is_lost() has read the device. guarded() comes first, and poison is not its business.
///
/// At most kMost at a time; more are not seen to, and are as if not there. Thread safe.
class StandIn {
 public:
  static constexpr std::size_t kMost = 256;

  /// `mapping` is whole pages, and outlives this object or is unmapped just before it ends.
  explicit StandIn(std::span<std::byte> mapping);
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;
  ~StandIn();

  [[nodiscard]] bool is_lost() const;

  /// Puts a page in place if one of them holds `address`. Async-signal-safe.
  static bool catch_fault(std::uintptr_t address) noexcept;

 private:
  SigbusHandler handler_;
  std::size_t slot_ = kMost;
};

}  // namespace nearkv

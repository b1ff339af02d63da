// What all parts of one host's end of a shared region work with.
#pragma once

#include <cstdint>

#include "share/membership.hpp"
#include "share/region.hpp"
#include "share/shared_memory.hpp"

namespace nearkv {

struct ShareContext {
  SharedMemory& memory;
  Membership& membership;
  Region region;
  std::uint16_t self = 0;
  std::uint32_t epoch = 0;  ///< Of this incarnation.
  MembershipView view{};    ///< That this host acts on.

  /// Calls visit(host, epoch) for each other live host.
  template <typename Visit>
  void for_each_peer(Visit visit) const {
    for (std::uint16_t host = 0; host < region.hosts(); ++host) {
      if (host != self && view.hosts[host].is_live) visit(host, view.hosts[host].epoch);
    }
  }
};

/// Consecutive extents.
struct Place {
  std::uint32_t first = 0;
  std::uint32_t extents = 0;

  bool operator==(const Place&) const = default;
  [[nodiscard]] bool overlaps(const Place& other) const {
    return first < other.first + other.extents && other.first < first + extents;
  }
};

}  // namespace nearkv

// A store's counters, as they cross the window.
#pragma once

#include <array>
#include <utility>

#include "nearkv/object_store.hpp"
#include "nkv_abi.h"

namespace nearkv {

/// Each counter in both structures.
inline constexpr std::array<
    std::pair<std::uint64_t ObjectStoreStats::*, std::uint64_t nkv_daemon_store_stats::*>, 23>
    kStoreCounters = {{
        {&ObjectStoreStats::total_bytes, &nkv_daemon_store_stats::total_bytes},
        {&ObjectStoreStats::used_bytes, &nkv_daemon_store_stats::used_bytes},
        {&ObjectStoreStats::object_bytes, &nkv_daemon_store_stats::object_bytes},
        {&ObjectStoreStats::objects, &nkv_daemon_store_stats::objects},
        {&ObjectStoreStats::namespaces, &nkv_daemon_store_stats::namespaces},
        {&ObjectStoreStats::leases, &nkv_daemon_store_stats::leases},
        {&ObjectStoreStats::sets, &nkv_daemon_store_stats::sets},
        {&ObjectStoreStats::set_bytes, &nkv_daemon_store_stats::set_bytes},
        {&ObjectStoreStats::hits, &nkv_daemon_store_stats::hits},
        {&ObjectStoreStats::get_bytes, &nkv_daemon_store_stats::get_bytes},
        {&ObjectStoreStats::misses, &nkv_daemon_store_stats::misses},
        {&ObjectStoreStats::evictions, &nkv_daemon_store_stats::evictions},
        {&ObjectStoreStats::expirations, &nkv_daemon_store_stats::expirations},
        {&ObjectStoreStats::corruptions, &nkv_daemon_store_stats::corruptions},
        {&ObjectStoreStats::recovered, &nkv_daemon_store_stats::recovered},
        {&ObjectStoreStats::torn, &nkv_daemon_store_stats::torn},
        {&ObjectStoreStats::moved, &nkv_daemon_store_stats::moved},
        {&ObjectStoreStats::quarantined, &nkv_daemon_store_stats::quarantined},
        {&ObjectStoreStats::slab_bytes, &nkv_daemon_store_stats::slab_bytes},
        {&ObjectStoreStats::promotions, &nkv_daemon_store_stats::promotions},
        {&ObjectStoreStats::demotions, &nkv_daemon_store_stats::demotions},
        {&ObjectStoreStats::max_objects, &nkv_daemon_store_stats::max_objects},
        {&ObjectStoreStats::max_namespaces, &nkv_daemon_store_stats::max_namespaces},
    }};
static_assert(sizeof(ObjectStoreStats) == kStoreCounters.size() * sizeof(std::uint64_t));

[[nodiscard]] inline nkv_daemon_store_stats to_wire(const ObjectStoreStats& stats) {
  nkv_daemon_store_stats wire{};
  for (const auto& [here, there] : kStoreCounters) wire.*there = stats.*here;
  return wire;
}

[[nodiscard]] inline ObjectStoreStats from_wire(const nkv_daemon_store_stats& wire) {
  ObjectStoreStats stats;
  for (const auto& [here, there] : kStoreCounters) stats.*here = wire.*there;
  return stats;
}

}  // namespace nearkv

// What everyone would write first: std::unordered_map behind one lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "prefix_match.hpp"
#include "residency.hpp"

namespace nearkv::bench {

/// The calls of router::PrefixIndex that are measured, with the same answers but for pools.
class MapIndex {
 public:
  void store(router::WorkerId worker, router::Tier tier, std::span<const std::uint64_t> hashes);
  void remove(router::WorkerId worker, router::Tier tier, std::span<const std::uint64_t> hashes);
  std::size_t match(std::span<const std::uint64_t> chain, std::size_t workers,
                    router::PrefixMatch* match) const;
  [[nodiscard]] std::size_t size() const { return holders_.size(); }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::uint64_t, std::vector<router::Holder>> holders_;
};

}  // namespace nearkv::bench

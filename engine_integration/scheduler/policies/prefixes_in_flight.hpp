// Prefixes that are being computed or loaded, so that nobody computes them a second time.
#pragma once

#include <optional>
#include <unordered_map>

#include "view.hpp"

namespace nearkv::scheduler {

/// Knows for each request that has started the first block that it had to bring: a waiting request
/// that lacks that very block gains by waiting. Strata calls what it would suffer a delay hit.
class PrefixesInFlight {
 public:
  /// It has started with `residency`.
  void add(RequestId id, const Residency& residency, const View& view) {
    const auto hashes = view.reusable_hashes(id);
    if (residency.pool_blocks >= hashes.size()) return;
    const BlockHash first = hashes[residency.pool_blocks];
    brought_by_[id] = first;
    ++bringing_[first];
  }

  /// Its prefix is there, or will not come.
  void remove(RequestId id) {
    const auto found = brought_by_.find(id);
    if (found == brought_by_.end()) return;
    const auto count = bringing_.find(found->second);
    if (--count->second == 0) bringing_.erase(count);
    brought_by_.erase(found);
  }

  /// Whether someone is bringing what this waiting request lacks first.
  [[nodiscard]] bool brings_for(RequestId id, const Residency& residency, const View& view) const {
    const auto hashes = view.reusable_hashes(id);
    return residency.pool_blocks < hashes.size() &&
           bringing_.contains(hashes[residency.pool_blocks]);
  }

 private:
  std::unordered_map<RequestId, BlockHash> brought_by_;
  std::unordered_map<BlockHash, std::uint32_t> bringing_;
};

}  // namespace nearkv::scheduler

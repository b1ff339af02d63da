#include "view.hpp"

#include <algorithm>

namespace nearkv::scheduler {

std::span<const BlockHash> View::reusable_hashes(RequestId id) const {
  const RequestState& state = (*this)[id];
  const std::size_t most = (state.known_tokens() - 1) / block_tokens;
  const std::span<const BlockHash> hashes(state.request.block_hashes);
  return hashes.first(std::min(most, hashes.size()));
}

Residency PoolAndTiers::of(RequestId id, const View& view) const {
  const auto hashes = view.reusable_hashes(id);
  Residency found{.pool_blocks = pool_.match(hashes)};
  if (lower_ == nullptr || found.pool_blocks == hashes.size()) return found;
  const Loadable loadable = lower_->find(hashes.subspan(found.pool_blocks), view.now_s);
  found.lower_blocks = loadable.blocks;
  found.load_s = loadable.blocks > 0 ? loadable.duration_s : 0;
  return found;
}

}  // namespace nearkv::scheduler

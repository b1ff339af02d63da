#include "prefix_match.hpp"

namespace nearkv::router {

void PrefixMatch::end() {
  if (!has_pooled_) return;
  std::vector<std::uint32_t> pooled_from(block_ + 1, 0);  // Blocks in pools from each one on.
  for (std::uint32_t block = block_; block-- > 0;) {
    pooled_from[block] = pooled_[block] ? pooled_from[block + 1] + 1 : 0;
  }
  for (std::size_t worker = 0; worker < reached_.size(); ++worker) {
    prefixes_[worker].blocks[static_cast<std::size_t>(Tier::kShared)] +=
        pooled_from[reached_[worker]];
  }
}

}  // namespace nearkv::router

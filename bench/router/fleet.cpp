#include "fleet.hpp"

#include <utility>

namespace nearkv::bench {

std::vector<CachedChain> make_fleet(const FleetOptions& options) {
  constexpr std::uint32_t kShortest = 50;
  constexpr std::uint32_t kLongest = 250;
  std::vector<Chain> chains =
      options.trace.empty() ? made_up_chains(options.blocks, kShortest, kLongest, options.seed)
                            : trace_chains(options.trace, options.blocks);
  std::vector<CachedChain> fleet;
  fleet.reserve(chains.size());
  for (std::size_t i = 0; i < chains.size(); ++i) {
    const std::size_t in_ten = i / options.workers % 10;
    const router::Tier tier = in_ten < 7   ? router::Tier::kGpu
                              : in_ten < 9 ? router::Tier::kDram
                                           : router::Tier::kCxl;
    fleet.push_back(
        {std::move(chains[i]), static_cast<router::WorkerId>(i % options.workers), tier});
  }
  return fleet;
}

}  // namespace nearkv::bench

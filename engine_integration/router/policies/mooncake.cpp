// Mooncake's KVCache-centric scheduling (Qin et al., FAST '25, algorithm 1), its choice of the
// prefill instance: the least estimated time to the first token, where an instance whose prefix is
// much shorter than the best one is taken to copy the rest from there. Requests that no instance
// would serve in time are refused. Decoding instances are not chosen: workers here do both.
#include <algorithm>

#include "policies.hpp"

namespace nearkv::router {
namespace {

class Mooncake : public Policy {
 public:
  explicit Mooncake(const PolicyOptions& options)
      : cost_(options.cost), thresholds_(options.mooncake) {}

  Status choose(const Prompt& prompt, std::span<const Candidate> candidates,
                Choice* choice) override {
    const auto length = [](const Candidate& each) { return each.prefix.total(); };
    const auto best = static_cast<std::size_t>(std::ranges::max_element(candidates, {}, length) -
                                               candidates.begin());
    const std::uint32_t best_blocks = candidates[best].prefix.total();
    *choice = {.cost = std::numeric_limits<double>::infinity()};
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& each = candidates[i];
      const std::uint32_t own_blocks = each.prefix.total();
      const bool copies = best_blocks > thresholds_.kvcache_balancing_threshold * own_blocks;
      const std::uint32_t blocks = copies ? best_blocks : own_blocks;
      const std::uint32_t uncached = uncached_tokens(prompt, blocks, cost_.block_tokens);
      const double ttft_s = cost_.transfer_s(blocks - own_blocks) +
                            cost_.prefill_s(static_cast<double>(each.load.prefill_tokens),
                                            each.prefill_tokens_per_s) +
                            cost_.prefill_s(uncached, each.prefill_tokens_per_s);
      if (ttft_s >= choice->cost) continue;
      *choice = {.candidate = i,
                 .cost = ttft_s,
                 .reason = copies ? "the least time to the first token, with a copied prefix"
                                  : "the least time to the first token",
                 .copy_from = copies ? best : Choice::kNobody};
    }
    return choice->cost > thresholds_.ttft_slo_s ? Status::kBusy : Status::kOk;
  }

 private:
  CostModel cost_;
  MooncakeThresholds thresholds_;
};

}  // namespace

std::unique_ptr<Policy> make_mooncake(const PolicyOptions& options) {
  return std::make_unique<Mooncake>(options);
}

}  // namespace nearkv::router

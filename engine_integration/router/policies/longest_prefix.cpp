// Who has the most of the prompt, by the tiers' weights (llm-d's precise prefix scorer); of equals,
// the least loaded. It does not look at load otherwise, and so can overload who has what all want.
#include <tuple>

#include "policies.hpp"

namespace nearkv::router {
namespace {

class LongestPrefix : public Policy {
 public:
  explicit LongestPrefix(const CostModel& cost) : cost_(cost) {}

  Status choose(const Prompt& prompt, std::span<const Candidate> candidates,
                Choice* choice) override {
    const auto rank = [this](const Candidate& candidate) {
      return std::tuple(-cost_.weighted_blocks(candidate.prefix), candidate.load);
    };
    std::size_t best = 0;
    for (std::size_t i = 1; i < candidates.size(); ++i) {
      if (rank(candidates[i]) < rank(candidates[best])) best = i;
    }
    const double blocks = cost_.weighted_blocks(candidates[best].prefix);
    *choice = {.candidate = best,
               .cost = prompt.blocks - blocks,
               .reason = blocks > 0 ? "the longest prefix" : "no prefix anywhere: the least load"};
    return Status::kOk;
  }

 private:
  CostModel cost_;
};

}  // namespace

std::unique_ptr<Policy> make_longest_prefix(const CostModel& cost) {
  return std::make_unique<LongestPrefix>(cost);
}

}  // namespace nearkv::router

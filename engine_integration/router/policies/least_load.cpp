// Who has the fewest requests; of those, the fewest tokens to compute, then blocks to hold.
#include <algorithm>

#include "policies.hpp"

namespace nearkv::router {
namespace {

class LeastLoad : public Policy {
 public:
  Status choose(const Prompt&, std::span<const Candidate> candidates, Choice* choice) override {
    const auto least = std::ranges::min_element(candidates, {}, &Candidate::load);
    *choice = {.candidate = static_cast<std::size_t>(least - candidates.begin()),
               .cost = static_cast<double>(least->load.requests),
               .reason = "the fewest requests"};
    return Status::kOk;
  }
};

}  // namespace

std::unique_ptr<Policy> make_least_load() { return std::make_unique<LeastLoad>(); }

}  // namespace nearkv::router

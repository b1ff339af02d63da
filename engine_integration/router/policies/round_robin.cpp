// In turns, whatever they have and do: the baseline.
#include <atomic>

#include "policies.hpp"

namespace nearkv::router {
namespace {

class RoundRobin : public Policy {
 public:
  Status choose(const Prompt&, std::span<const Candidate> candidates, Choice* choice) override {
    const std::size_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
    *choice = {.candidate = turn % candidates.size(), .reason = "its turn"};
    return Status::kOk;
  }

 private:
  std::atomic<std::size_t> turn_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_round_robin() { return std::make_unique<RoundRobin>(); }

}  // namespace nearkv::router

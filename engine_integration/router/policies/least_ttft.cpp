// Our own: the least estimated time to the first token, with what each tier takes to load. Of equal
// times, the least load.
#include <tuple>

#include "policies.hpp"

namespace nearkv::router {
namespace {

class LeastTtft : public Policy {
 public:
  explicit LeastTtft(const CostModel& cost) : cost_(cost) {}

  Status choose(const Prompt& prompt, std::span<const Candidate> candidates,
                Choice* choice) override {
    std::size_t best = 0;
    double best_s = ttft_s(prompt, candidates[0]);
    for (std::size_t i = 1; i < candidates.size(); ++i) {
      const double seconds = ttft_s(prompt, candidates[i]);
      if (std::tie(seconds, candidates[i].load) < std::tie(best_s, candidates[best].load)) {
        best = i;
        best_s = seconds;
      }
    }
    *choice = {.candidate = best, .cost = best_s, .reason = "the least time to the first token"};
    return Status::kOk;
  }

 private:
  [[nodiscard]] double ttft_s(const Prompt& prompt, const Candidate& candidate) const {
    const std::uint32_t uncached =
        uncached_tokens(prompt, candidate.prefix.total(), cost_.block_tokens);
    const double tokens = static_cast<double>(candidate.load.prefill_tokens) + uncached;
    return cost_.load_s(candidate.prefix) + cost_.prefill_s(tokens, candidate.prefill_tokens_per_s);
  }

  CostModel cost_;
};

}  // namespace

std::unique_ptr<Policy> make_least_ttft(const CostModel& cost) {
  return std::make_unique<LeastTtft>(cost);
}

}  // namespace nearkv::router

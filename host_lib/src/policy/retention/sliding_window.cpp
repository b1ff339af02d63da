// sliding_window: the most recent tokens; with the budget's sinks, StreamingLLM.
//
// A model that was never asked for more than a window goes on for ever if the first tokens stay,
// on which heads rest that have nothing to say (Xiao et al., ICLR 2024). What left the window is
// not recalled; the policy that all others have to beat, and the only one that looks at no
// attention.
#include "policy/retention/policies.hpp"

namespace nearkv {
namespace {

class SlidingWindow final : public RetentionPolicy {
 public:
  SlidingWindow() : RetentionPolicy("sliding_window", {}, {}, 0) {}

 private:
  void on_observe(const Observation& /*seen*/) override {}

  void on_worth(std::span<float> worth) const override {
    for (std::size_t i = 0; i < worth.size(); ++i) worth[i] = static_cast<float>(i);
  }

  [[nodiscard]] std::unique_ptr<RetentionPolicy> empty() const override {
    return std::make_unique<SlidingWindow>();
  }
};

std::unique_ptr<RetentionPolicy> make(const Parameters& /*parameters*/) {
  return std::make_unique<SlidingWindow>();
}

}  // namespace

NamedRetentionPolicy sliding_window() { return {"sliding_window", {}, make}; }

}  // namespace nearkv

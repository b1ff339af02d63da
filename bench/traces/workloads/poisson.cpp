#include "workloads/chat.hpp"
#include "workloads/kinds.hpp"

namespace nearkv::traces {
namespace {

class Poisson final : public Workload {
 public:
  explicit Poisson(const WorkloadConfig& config) : config_(config), chat_(config) {}

  [[nodiscard]] std::optional<Arrival> next() override {
    if (number_ == config_.requests) return std::nullopt;
    at_s_ += chat_.draw().exponential(1 / config_.rate_per_s);
    return Arrival{.at_s = at_s_, .request = chat_.request(number_++)};
  }

 private:
  WorkloadConfig config_;
  Chat chat_;
  std::uint64_t number_ = 0;
  Seconds at_s_ = 0;
};

}  // namespace

std::unique_ptr<Workload> make_poisson(const WorkloadConfig& config) {
  return std::make_unique<Poisson>(config);
}

}  // namespace nearkv::traces

#include "workloads/chat.hpp"
#include "workloads/kinds.hpp"

namespace nearkv::traces {
namespace {

class Closed final : public Workload {
 public:
  explicit Closed(const WorkloadConfig& config) : config_(config), chat_(config) {}

  [[nodiscard]] std::optional<Arrival> next() override {
    if (number_ == std::min(config_.users, config_.requests)) return std::nullopt;
    return Arrival{.at_s = 0, .request = chat_.request(number_++)};
  }
  [[nodiscard]] std::optional<Arrival> follow_up(std::uint64_t /*tag*/, Seconds now_s) override {
    if (number_ == config_.requests) return std::nullopt;
    return Arrival{.at_s = now_s + config_.think_s, .request = chat_.request(number_++)};
  }

 private:
  WorkloadConfig config_;
  Chat chat_;
  std::uint64_t number_ = 0;
};

}  // namespace

std::unique_ptr<Workload> make_closed(const WorkloadConfig& config) {
  return std::make_unique<Closed>(config);
}

}  // namespace nearkv::traces
